# make deploy   sets everything up and runs the digits job on this machine (ARGS="-e force=true" runs it again)
# make check    lint, types and quick tests, in two minutes
# make test     most of it, on real parts, in 25 minutes
.DEFAULT_GOAL := help
.PHONY: help deploy setup generate check test test-all test-long test-images test-pbs test-gridengine test-onnx soak soak-cluster fuzz up down clean test-browser test-trials test-cloud test-kubernetes test-openstack test-libvirt soak-cloud docs test-docs test-galaxy test-newcomer evidence

ARGS ?=
PYTHON_OF_THE_SYSTEM = $$(scripts/find-python.sh)
BIN = $(CURDIR)/.venv/bin
PARTS = tests/real/slurm.sh tests/real/cluster.sh tests/real/containers.sh tests/real/postgresql.sh tests/real/pbs.sh tests/real/cloud.sh tests/real/kubernetes.sh tests/real/openstack.sh tests/real/libvirt.sh tests/real/swift.sh

help: ## show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deploy: ## set everything up and run the digits job on this machine; ARGS is passed on
	@python=$(PYTHON_OF_THE_SYSTEM) && "$$python" scripts/setup.py digits
	@ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false \
	  PATH="$(BIN):$$PATH" $(BIN)/ansible-playbook modak.deploy.deploy -e deployment=examples/digits/deploy.yml $(ARGS)

setup: ## make .venv with all that the tests need
	@python=$(PYTHON_OF_THE_SYSTEM) && "$$python" scripts/setup.py digits test
	@mkdir -p .collections/ansible_collections/modak
	@ln -sfn ../../.. .collections/ansible_collections/modak/deploy

generate: setup ## make anew what is made from the models and the data: TOSCA types, reference, README's table
	@PYTHONPATH=. $(BIN)/python scripts/registration.py
	@PYTHONPATH=. $(BIN)/python -m modak_deploy.tosca.library tosca/blueprints/modak
	@PYTHONPATH=. $(BIN)/python scripts/reference.py
	@PYTHONPATH=. $(BIN)/python scripts/role_readmes.py
	@PYTHONPATH=. $(BIN)/python scripts/manpage.py
	@PYTHONPATH=. $(BIN)/python scripts/pictures.py
	@PYTHONPATH=. $(BIN)/python scripts/evidence.py

check: setup ## lint, types and the quick unit tests (two minutes)
	@$(BIN)/python scripts/suite.py check

test: setup ## check, sanity, packaging, real Slurm over ssh, TOSCA, molecule, a job in Apptainer (25 minutes)
	@$(BIN)/python scripts/suite.py test

test-all: setup ## make test with nothing left out, as continuous integration runs it (an hour)
	@$(BIN)/python scripts/suite.py all

test-long: setup ## what make test-all does in a shorter way: README in a fresh clone, kills at each point (half an hour)
	@$(BIN)/python scripts/suite.py unit-long evaluation long

test-images: setup ## container images on real Apptainer, podman, Charliecloud and registries (half an hour)
	@$(BIN)/python scripts/suite.py containers

test-pbs: setup ## real Torque and OpenPBS from MODAK_TORQUE_SOURCE and MODAK_OPENPBS_SOURCE (half an hour; the first time longer)
	@$(BIN)/python scripts/suite.py real-pbs pbs

test-gridengine: setup ## jobs on the real daemons of Grid Engine, from Debian's packages (five minutes)
	@MODAK_PBS_ONLY=gridengine $(BIN)/python scripts/suite.py gridengine

test-onnx: setup ## conversion of real networks and of every framework that is installed, and serving (half an hour)
	@$(BIN)/python scripts/suite.py onnx

test-browser: setup ## reports in headless Chromium with axe-core from MODAK_CHROMIUM and MODAK_AXE (half a minute)
	@$(BIN)/python scripts/suite.py browser

test-trials: setup ## restart trials with good and bad candidates, by each shell (five minutes)
	@$(BIN)/python scripts/suite.py trials

test-cloud: setup ## deployments on AWS's API as moto has it, each call failing once (an hour; 340 MB the first time)
	@$(BIN)/python scripts/suite.py real-cloud cloud

test-kubernetes: setup ## Jobs on a real API server, built from Debian's source package (three minutes; the first time ten)
	@$(BIN)/python scripts/suite.py real-kubernetes kubernetes

test-openstack: setup ## deployments on keystone, nova, neutron and glance from Debian's packages (half an hour; 2 GB the first time)
	@$(BIN)/python scripts/suite.py real-openstack real-swift openstack

test-libvirt: setup ## deployments to guests of libvirt with QEMU, the processor emulated (half an hour; 1 GB the first time)
	@$(BIN)/python scripts/suite.py real-libvirt libvirt

soak-cloud: setup ## deployments to moto killed at random moments, 100 times: no orphan, no second instance (an hour)
	@$(BIN)/python scripts/suite.py real-cloud soak-cloud

soak: setup ## 1,000 deployments under kills, full disks, slow schedulers, set clocks and more: each runs once (half an hour)
	@cd $(CURDIR) && PATH="$(BIN):$$PATH" PYTHONPATH=. $(BIN)/python tests/soak/rounds.py $(ARGS)

soak-cluster: setup ## whole playbooks killed at random moments and made again, 200 times on the cluster (half an hour)
	@$(BIN)/python scripts/suite.py soak-cluster

fuzz: setup ## what jobs, targets and schedulers say, at random, 2,000 cases of each kind; CASES and SEED change that
	@$(BIN)/python tests/fuzz/run.py --cases $(or $(CASES),2000) --seed $(or $(SEED),0)

evidence: setup ## the tables of evidence in .build/evidence, less than an hour on an idle machine; ARGS="--skip programs --skip study"
	@$(BIN)/python -m pip install --quiet --editable '.[digits,models,tune,torch]'
	@PATH="$(BIN):$$PATH" PYTHONPATH=. $(BIN)/python benchmarks/evidence_tables.py $(ARGS)

docs: setup ## the documentation as a site in .build/site; warnings and dead links are errors (half a minute)
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

test-docs: docs ## its tutorials, run on a real Slurm, and its pages in headless Chromium at two widths, from MODAK_CHROMIUM
	@$(BIN)/python scripts/suite.py real-slurm docs

test-newcomer: setup ## from the wheel to a PyTorch script tuned on a real Slurm, by the tutorial's commands (five minutes)
	@$(BIN)/python scripts/suite.py real-slurm newcomer

test-galaxy: setup ## galaxy-importer, antsibull-docs, twine and ansible-builder from MODAK_GALAXY_TOOLS (three minutes)
	@$(BIN)/python scripts/suite.py galaxy

up: ## start the real Slurm and sshd of the tests
	@tests/real/slurm.sh up
	@tests/real/slurm.sh python

down: ## stop them, and all other real parts of the tests
	@for part in $(PARTS); do $$part down || exit; done

clean: ## stop the real parts and remove what was made here, results excepted
	@-for part in $(PARTS); do $$part down; done
	rm -rf .build .cache .collections .mypy_cache .pytest_cache .ruff_cache .venv dist
