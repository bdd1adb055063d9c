"""SODALITE's node types: what their properties come to, and that each fault is told at its line."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.diagnostics import dotted
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.tosca import library
from modak_deploy.tosca.draw import mermaid, picture
from modak_deploy.tosca.notices import notices
from modak_deploy.tosca.service import load
from modak_deploy.tosca.sodalite import sections
from modak_deploy.tosca.sodalite_types import APPLICATION, EXECUTION, MANAGER, MANAGER_TYPE, RUNTIME, UNUSED
from modak_deploy.tosca.validate import validate

DATA = Path(__file__).parents[2] / "data" / "blueprints"
BLUEPRINT = library.folder().parent / "sodalite-slurm.yaml"
TEXT = BLUEPRINT.read_text()
MANAGED = {"scheduler": "slurm", "public_address": "login.example.org", "username": "ann", "ssh-key": "/k", "port": 0}


def deployment(manager: dict[str, Any] | None = None, **told: Any) -> tuple[Deployment, dict[str, str]]:
    """Return what a job's properties come to, and its files."""
    found = sections({"tosca_name": "job", "executable": "/bin/true", **told}, manager or MANAGED)
    files = found.pop("files", {})
    return Deployment.model_validate(found), files


def test_autotuning_tries_levers_while_the_job_runs() -> None:
    assert deployment(enable_autotuning=True)[0].request.trials == "live"
    assert deployment(enable_autotuning=False)[0].request.trials == "none"


def test_the_workload_manager_is_a_target() -> None:
    target = deployment()[0].target
    assert (target.type, target.host, target.user, target.private_key) == ("slurm", "login.example.org", "ann", "/k")
    assert deployment({**MANAGED, "scheduler": "pbs"})[0].target.type == "openpbs"
    assert deployment({**MANAGED, "scheduler": "torque"})[0].target.type == "torque"


@pytest.mark.parametrize(
    ("told", "field", "value"),
    [
        ({"job_name": "run"}, "job.name", "run"),
        ({"partition": "gpu"}, "job.partition", "gpu"),
        ({"queue": "fast"}, "job.partition", "fast"),
        ({"wall_time_limit": "1-00:00:00"}, "job.wall_time", 86400),
        ({"app_type": "mpi", "node_count": 2, "process_count_per_node": 4}, "job.ranks", 8),
        ({"app_type": "mpi", "node_count": 2}, "job.nodes", 2),
        ({"request_gpus": 1}, "job.gpus", 1),
        ({"request_specific_nodes": "n1,n2"}, "job.node_list", "n1,n2"),
        ({"standard_output_file": "out.txt"}, "job.output", "out.txt"),
        ({"standard_error_file": "err.txt"}, "job.error", "err.txt"),
        ({"combine_stdout_stderr": True}, "job.join_output", True),
        ({"copy_environment": True}, "job.export_environment", True),
        ({"copy_environment_variable": "A=1,B=2"}, "job.environment", {"A": "1", "B": "2"}),
        ({"request_event_notification": "abe"}, "job.mail_events", ["begin", "end", "fail"]),
        ({"email_address": "ann@example.org"}, "job.mail_user", "ann@example.org"),
        ({"mpi_ranks": 4}, "job.ranks", 4),
        ({"app_tag": "solver"}, "application.name", "solver"),
        ({"env": {"A": "${B}"}}, "application.environment", {"A": "${B}"}),
        ({"container_runtime": "docker://alpine:3"}, "application.image", "docker://docker.io/library/alpine:3"),
        (
            {"container_runtime": "private://a/b:1", "private_registry": "r.org:5000"},
            "application.image",
            "docker://r.org:5000/a/b:1",
        ),
        ({"account": "lab"}, "job.account", "lab"),
        ({"memory_limit": "4 GB"}, "job.memory", 4 * 1024**3),
        ({"job_array": "1-3"}, "job.array", "1-3"),
        ({"job_dependency": "afterok:1"}, "job.dependency", ["afterok:1"]),
        ({"defer_job": "2030-01-02T03:04"}, "job.begin", "2030-01-02T03:04:00"),
        ({"node_exclusive": True}, "job.exclusive", True),
        ({"pre-execution": "date"}, "job.pre_execution", "date"),
        ({"executable": "/bin/echo 'a b'", "arguments": "c"}, "application.arguments", ["a b", "c"]),
    ],
)
def test_a_property_keeps_its_meaning(told: dict[str, Any], field: str, value: Any) -> None:
    found: Any = deployment(**told)[0]
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize("found", ["slurm", "torque", "openpbs", "machine"])
def test_a_scheduler_that_is_not_told_is_what_was_found(found: str) -> None:
    batch = {**MANAGED, "scheduler": "batch"}
    assert sections({"tosca_name": "job", "executable": "/bin/true"}, batch, found)["target"]["type"] == found
    assert deployment(batch)[0].target.type == "slurm", "whichever it is, the job can be run"


BUILD = {"src": "https://example.org/solver.git", "build_command": "make -j{{BUILD_PARALLELISM}}"}


def test_an_application_is_built_before_it_runs() -> None:
    found, files = deployment(
        executable="solver/run", build={**BUILD, "build_parallelism": "2"}, **{"pre-execution": "date"}
    )
    assert found.application.inputs == ["job-build.sh"]
    assert "git clone --depth 1 -- https://example.org/solver.git" in files["job-build.sh"]
    assert "make -j2" in files["job-build.sh"]
    assert found.job.pre_execution == '(build=$PWD/job-build.sh; mkdir -p . && cd . && sh "$build")\ndate'
    assert deployment(build={"any name": BUILD})[1].keys() == {"job-build.sh"}
    found, files = deployment(content="./solver/run\n", build=BUILD, workspace="~/w")
    assert files.keys() == {"job-script.sh", "job-build.sh"}
    assert 'cd "$HOME"/w && sh' in (found.job.pre_execution or "")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"build": {**BUILD, "src": "../solver"}}, "build.src: '../solver' is not an https:// address of a repository"),
        ({"build": {"src": BUILD["src"]}}, "build: the key 'build_command' is required"),
        ({"build": {**BUILD, "build_comand": "x"}}, "build: unknown key 'build_comand'; did you mean 'build_command'?"),
        ({"build": BUILD, "container_runtime": "a/b:1"}, "build: it cannot be built inside the image 'a/b:1'"),
        ({"build": BUILD, "job_array": "1-3"}, "build: each task of 'job_array' would build anew"),
        ({"container_runtime": "private://a:1"}, "container_runtime: 'private://a:1' is in a private registry, and"),
    ],
)
def test_what_cannot_be_honoured_is_told(told: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        deployment(**told)


def test_what_is_not_gone_by_is_told() -> None:
    said = [f"{dotted(notice.path)}: {notice.message}" for notice in notices(load(BLUEPRINT))]
    assert [text.partition(":")[0] for text in said] == [
        "node_templates.wm.properties.hpc_label",
        *(f"node_templates.{name}-result.properties.monitor_period" for name in ("prepare", "solve")),
        "node_templates.solve-result.properties.monitor_retries_headroom",
        "inputs.monitoring_id",
    ]


def test_a_ready_script_is_run_as_it_is() -> None:
    content = "#!/bin/bash\necho ${#A[@]} {{ not a template }} $SINGULARITY_DIR\n"
    found, files = deployment(content=content, workspace="~/my work", images_location="", container_runtime="x:1")
    application = found.application
    assert files == {"job-script.sh": content}
    assert (application.executable, application.inputs, application.image) == ("/bin/sh", ["job-script.sh"], None)
    line, script = application.arguments[1:]
    assert script == "job-script.sh"
    assert """SINGULARITY_DIR="$HOME"/images WORKSPACE_DIR="$HOME"/'my work'; PBS_O_WORKDIR=$WORKSPACE_DIR""" in line
    assert line.endswith('mkdir -p "$WORKSPACE_DIR" && cd "$WORKSPACE_DIR" && exec "$script"')
    wide = deployment(content="mpirun ./a\n", node_count=2, process_count_per_node=4)[0].job
    assert (wide.nodes, wide.ranks, wide.mpi_launcher) == (2, 8, "none"), "it is started once, and reserves all"
    plain, _ = deployment(content="echo\n", images_location="/images", workspace="/w")
    assert "SINGULARITY_DIR=/images WORKSPACE_DIR=/w" in plain.application.arguments[1]
    assert plain.application.arguments[1].endswith('exec /bin/sh "$script"')


def test_all_that_operations_are_told_are_properties_of_the_types() -> None:
    types = yaml.safe_load((library.folder() / "types" / "sodalite.yaml").read_text())["node_types"]
    own = {name: set(body.get("properties", {})) for name, body in types.items()}
    assert set(EXECUTION) == own["sodalite.nodes.batch.Container.BatchExecution"]
    assert set(APPLICATION) == own["sodalite.nodes.batch.Container.Application"]
    runtime = "sodalite.nodes.batch.Container.Runtime"
    assert {*RUNTIME, *UNUSED[runtime]} == own[runtime]
    assert {*MANAGER, *UNUSED[MANAGER_TYPE]} == own[MANAGER_TYPE]
    assert {*UNUSED["sodalite.nodes.workflow.Result"]} == own["sodalite.nodes.workflow.Result"]


FAULTS = [
    ("wall_time_limit: .*", "wall_time_limit: ten", "'ten' is not a time: write seconds, '30m', '1:30:00'"),
    ("scheduler: slurm", "scheduler: slrum", "must be one of torque, pbs, slurm, batch, not 'slrum'; did you mean"),
    ("executable: /bin/cat", 'executable: ""', "either a ready script in 'content' or an 'executable'"),
    ("app_type: mpi", "app_type: nope", "must be one of nothing, mpi, hpc, python, not 'nope'"),
    ("job_name: solve", "job_name: a b", "must be a name of at most 63 ASCII letters"),
    ("arguments: .*", 'arguments: "a; b"', "';' means something to a shell only"),
    ("port: .*", "port: 70000", "must be at most 65535, not 70000"),
    ("standard_error_file: .*", "request_event_notification: x", "'x' is not an event; write letters of 'abe'"),
    ("node_count: 1", "node_cuont: 1", "unknown property; did you mean 'node_count'?"),
    ("node_count: 1", 'node_count: "1"', "must be a whole number, not '1'; write it without quotes"),
    ("images_location: .*", "images_location: 5", "must be text, not 5; write it in quotes"),
    ("- application: prepare-app", "- application: singularity", "a sodalite.nodes.batch.Container.Application is"),
    ("- execution: solve-execution", "- execution: solve-app", "a sodalite.nodes.batch.Container.BatchExecution is"),
    ("- job: solve-job", "- job: solve-execution", "but a sodalite.nodes.workflow.Job is required"),
    ("monitor_period: 5", "monitor_period: 0", "must be above 0, not 0"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), FAULTS, ids=[f"{new} for {old}" for old, new, _ in FAULTS])
def test_a_fault_is_told_at_its_line(project: Path, old: str, new: str, words: str) -> None:
    text, count = re.subn(old, new, TEXT, count=1)
    assert count == 1
    line = next(n for n, (a, b) in enumerate(zip(TEXT.splitlines(), text.splitlines(), strict=True), 1) if a != b)
    (project / "b.yaml").write_text(text)
    faults = [str(fault) for fault in validate(project / "b.yaml")]
    assert any(fault.startswith(f"{project}/b.yaml:{line}: ") and words in fault for fault in faults), faults


def test_the_picture_shows_jobs_and_their_parts() -> None:
    text = mermaid(picture(load(BLUEPRINT)))
    assert "prepare-job" in text
    assert ":::job" in text
    assert ":::target" in text


OLDER: dict[str, list[str]] = yaml.safe_load((DATA / "sodalite-older.yaml").read_text())


@pytest.mark.parametrize(("instead", "name"), [(instead, name) for instead, names in OLDER.items() for name in names])
def test_an_older_type_is_reported_once_with_what_to_use_instead(tmp_path: Path, instead: str, name: str) -> None:
    blueprint = tmp_path / "b.yaml"
    nodes = {"older": {"type": name}, "used": {"type": "tosca.nodes.Root", "requirements": [{"dependency": "older"}]}}
    document = {"tosca_definitions_version": "tosca_simple_yaml_1_3", "topology_template": {"node_templates": nodes}}
    blueprint.write_text(yaml.safe_dump(document))
    (fault,) = validate(blueprint)
    absent = f"there is no node type '{name}'"
    unsupported = f"the type '{name}' of SODALITE is not supported"
    assert fault.message.startswith(absent if instead.startswith("import") else unsupported), fault
    assert instead in str(fault)
    assert "did you mean" not in str(fault)
