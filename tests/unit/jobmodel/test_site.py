"""Documents of the job model whose target is a site of the common files."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from modak_deploy.documents import sitefiles
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.site import load_sites

SITE = {
    "target": {
        "type": "slurm",
        "host": "login.example.org",
        "modules": ["foss/2024a"],
        "images": "/images",
        "partitions": [
            {"name": "cpu", "nodes": 4, "node": {"cores": 64, "microarchitecture": "zen3", "memory": "256 GiB"}},
            {
                "name": "gpu",
                "nodes": 2,
                "node": {"cores": 32, "microarchitecture": "zen2", "accelerators": [{"model": "A100", "count": 4}]},
            },
        ],
    },
    "job": {"account": "project_1", "partition": "cpu", "pre_execution": "ulimit -s unlimited"},
    "software": {"runtimes": {"apptainer": "1.3.4"}, "mpi": [{"family": "openmpi", "version": "5.0.3"}]},
    "storage": {"file:///scratch": {"storage_class": "default-high"}},
}
JOB = {
    "job": {
        "target": {"name": "alps"},
        "application": {"app_tag": "hello", "executable": "./hello", "app_type": "hpc"},
        "job_options": {"job_name": "hello"},
    }
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home" / "modak"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MODAK_SITES", raising=False)
    monkeypatch.setattr(sitefiles, "SYSTEM_FOLDER", tmp_path / "etc")
    monkeypatch.chdir(tmp_path)
    return folder


def write(path, site=None, name="alps", **more):
    path.write_text(yaml.safe_dump({"version": 1, "sites": {name: site or SITE}, **more}))
    return path


def planned(job=None, paths=()):
    return answer(json.loads(json.dumps(job or JOB)), sites=load_sites(paths), now=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_site_is_found_by_name_and_gives_its_options(home):
    write(home / "sites.yaml")
    done = planned()
    script = done.job_script
    assert "#SBATCH --account=project_1" in script
    assert "#SBATCH --partition=cpu" in script
    assert "module load foss/2024a" in script
    assert "ulimit -s unlimited" in script
    assert done.plan.target.name == "alps"


def test_the_documents_own_options_stand_over_the_sites(home):
    write(home / "sites.yaml")
    job = json.loads(json.dumps(JOB))
    job["job"]["job_options"] |= {"account": "mine", "partition": "gpu"}
    script = planned(job).job_script
    assert "--account=mine" in script and "--partition=gpu" in script


def test_what_the_document_denies_is_not_the_sites(home):
    site = {**SITE, "job": {"exclusive": True, "export_environment": True, "partition": "cpu"}}
    write(home / "sites.yaml", site)
    plan = planned().plan
    assert (plan.job.exclusive, plan.job.export_environment) == (True, True)
    job = json.loads(json.dumps(JOB))
    job["job"]["job_options"] |= {"node_exclusive": False, "copy_environment": False, "request_gpus": 0}
    plan = planned(job).plan
    assert (plan.job.exclusive, plan.job.export_environment, plan.job.gpus) == (False, False, 0)


def test_the_option_site_takes_the_common_form_too(home, tmp_path):
    path = write(tmp_path / "sites-here.yaml")
    assert planned(paths=[path]).plan.target.name == "alps"
    assert planned(paths=[tmp_path]).plan.target.name == "alps"


def test_a_site_that_option_describes_in_the_older_form_stands_over_the_common_one(home, tmp_path):
    write(home / "sites.yaml")
    old = tmp_path / "sites.yaml"
    old.write_text(yaml.safe_dump({"version": 1, "infrastructures": [{"name": "alps", "scheduler": "torque"}]}))
    assert planned(paths=[old]).plan.target.type == "torque"


def test_scripts_of_the_file_are_used(home):
    data = {"name": "stage", "data": {"stage": "pre", "raw": "cp a b"}}
    write(home / "sites.yaml", scripts=[data])
    assert "cp a b" in planned().job_script


def test_a_name_that_is_nowhere_is_planned_for_any_cluster(home):
    write(home / "sites.yaml", name="other")
    job = json.loads(json.dumps(JOB))
    job["job"]["target"]["job_scheduler_type"] = "slurm"
    assert planned(job).plan.target.name == "slurm"


@pytest.mark.parametrize(
    "change, text",
    [
        ({"partitions": [{"name": "cpu", "nodes": 4}]}, r"partitions\[0\].node: the key 'cores' is required"),
        ({"partitions": [{"name": "cpu"}]}, r"partitions\[0\]: the key 'nodes' is required"),
        (
            {"partitions": [{"name": "cpu", "nodes": 4, "node": {"cores": 4, "microarchitecture": "u74mc"}}]},
            r"partitions\[0\].node.microarchitecture: processors of riscv64 are not supported by the job model",
        ),
    ],
)
def test_what_planning_without_the_target_needs(home, change, text):
    path = write(home / "sites.yaml", {**SITE, "target": {**SITE["target"], **change}})
    with pytest.raises(InputError, match=text) as error:
        planned()
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [{"infrastructures": [{"name": "alps", "scheduler": "torque"}]}, {"scripts": []}])
@pytest.mark.parametrize("of_folder", [False, True])
def test_a_file_that_everybody_can_write_to_is_refused_whatever_it_holds(tmp_path, content, of_folder):
    path = tmp_path / "shared" / "sites.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump({"version": 1, **content}))
    load_sites([path])
    (path.parent if of_folder else path).chmod(0o777)
    for named in (path, path.parent):
        with pytest.raises(InputError, match=r"everybody can write to the f.*, so its settings are not used"):
            load_sites([named])


def test_a_file_that_is_not_trusted_is_not_read(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text("version: [")
    path.chmod(0o666)
    with pytest.raises(InputError, match="everybody can write to the file"):
        load_sites([path])


def test_a_cluster_of_kubernetes_is_refused_with_its_line(home):
    path = write(home / "sites.yaml", {"target": {"type": "kubernetes", "node": {"cores": 4}}})
    with pytest.raises(InputError, match=r"sites\.alps\.target\.type: kubernetes is not supported by the job model"):
        planned()
    with pytest.raises(InputError, match=rf"^{path}:\d+: "):
        planned()


def test_parallel_environment_and_binds_of_the_site_are_used(home):
    partition = {"name": "all.q", "nodes": 4, "node": {"cores": 16, "microarchitecture": "zen3"}}
    target = {"type": "gridengine", "partitions": [partition], "parallel_environment": "mpi", "binds": ["/data"]}
    write(home / "sites.yaml", {"target": target, "software": SITE["software"]})
    job = json.loads(json.dumps(JOB))
    job["job"]["application"] |= {"app_type": "mpi", "mpi_ranks": 4, "container_runtime": "/images/a.sif"}
    script = planned(job).job_script
    assert "#$ -pe mpi 4" in script
    assert "/data" in script


def test_parallel_environment_of_a_site_in_the_older_form_is_used(tmp_path):
    site = {"name": "alps", "scheduler": "gridengine", "parallel_environment": "mpi"}
    path = tmp_path / "old.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "infrastructures": [site]}))
    job = json.loads(json.dumps(JOB))
    job["job"]["application"] |= {"app_type": "mpi", "mpi_ranks": 4}
    assert "#$ -pe mpi 4" in planned(job, [path]).job_script


def test_an_image_is_refused_where_it_must_be_signed(home):
    write(home / "sites.yaml", {**SITE, "target": {**SITE["target"], "image_keys": ["/keys/site.pem"]}})
    assert planned().plan.chosen.runtime == "native"
    job = json.loads(json.dumps(JOB))
    job["job"]["application"]["container_runtime"] = "/images/a.sif"
    with pytest.raises(
        InfeasibleError, match=r"application\.container_runtime: images of the site alps must be signed"
    ):
        planned(job)


@pytest.mark.parametrize(("ranks", "cores", "memory"), [(16, 4, "4 GiB"), (1, 64, "4 GiB"), (1, None, "256 GiB")])
def test_memory_of_all_cores_that_are_asked_for_fits_on_a_node(home, ranks, cores, memory):
    write(home / "sites.yaml")
    options = {"job_name": "hello", "minimum_memory_per_processor": memory, "core_count_per_process": cores}
    application = {**JOB["job"]["application"], "mpi_ranks": ranks}
    job = {"job": {**JOB["job"], "application": application, "job_options": options}}
    assert f"#SBATCH --mem-per-cpu={int(memory.split()[0]) * 1024}M" in planned(job).job_script
    options["minimum_memory_per_processor"] = f"{int(memory.split()[0]) * 1024 + 1} MiB"
    with pytest.raises(
        InfeasibleError, match=r"minimum_memory_per_processor: .* and a node of the partition cpu has 256"
    ):
        planned(job)
