"""Ansible forks a process for each host: what they all need is read before, once."""

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
COLLECTIONS = TOP / ".collections"
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import ansible_collections.modak.deploy.plugins.action.optimise
from pathlib import Path
import modak_deploy.planning
before = set(sys.modules)
def refuse(*arguments, **options):
    raise AssertionError(f"a file is opened: {arguments}")
Path.open = Path.read_bytes = Path.read_text = refuse
catalogue = modak_deploy.planning.preload()
print(len(catalogue.levers) > 0, len(catalogue.images) > 0, set(sys.modules) - before)
"""

DECISION = """
import sys
sys.path.insert(0, sys.argv[1])
import ansible_collections.modak.deploy.plugins.action.optimise
from pathlib import Path
from datetime import UTC, datetime
from modak_deploy.model.deployment import Deployment
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.base import Completed
answer = Path(sys.argv[2]).read_text()
class Given:
    concurrent = True
    def run(self, command, *, stdin=None, timeout=None):
        return Completed(0, answer, "")
data = {"name": "digits", "script": "train.py", "framework": {"name": "keras"}, "workload": {"model": "mnist-cnn"}}
deployment = Deployment.model_validate({"application": data, "target": {"name": "t", "host": "t"}})
before = set(sys.modules)
plan = plan_deployment(deployment, Given(), search=[Path("examples/digits")], now=datetime.now(UTC))
print(plan.target.name, sorted(name for name in set(sys.modules) - before if name.startswith("modak_deploy.")))
"""
ANSWER = """\
@@modak:machine
x86_64
@@modak:cpuinfo
processor : 0
vendor_id : AuthenticAMD
flags : fpu sse2 avx avx2
@@modak:python
/usr/bin/python3
@@modak:python-runs
@@modak:packages
keras-3.15.1.dist-info
tensorflow_cpu-2.21.0.dist-info
@@modak:end
"""
FAULTY = """
import modak_deploy.planning
from modak_deploy.errors import InputError
def refuse(*arguments, **options):
    raise InputError("not valid")
modak_deploy.planning.make_plan = refuse
modak_deploy.planning.rehearse()
print("ready")
"""


def test_optimise_reads_catalogue_and_measurements_when_it_is_loaded() -> None:
    command = [sys.executable, "-c", CODE, str(COLLECTIONS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True set()\n"


def test_a_decision_of_a_forked_process_has_nothing_left_to_import(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(ANSWER)
    command = [sys.executable, "-c", DECISION, str(COLLECTIONS), str(tmp_path / "answer")]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "MODAK_MEASUREMENTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=TOP, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "t []\n"


def test_an_error_of_the_rehearsal_is_left_to_the_decision_itself() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTY], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
