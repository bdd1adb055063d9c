"""The exact text of scripts; shellcheck reads them all. ``MODAK_GOLDEN=write pytest`` writes them anew."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.jobs.script import default_template
from scheduler_parts import DATA, ZERO, make, shells

JOBS: dict[str, dict[str, Any]] = {
    "plain": {"job": {"wall_time": "30m"}},
    "full": {
        "job": {
            "account": "proj",
            "partition": "work",
            "wall_time": "2-00:00:00",
            "modules": ["gcc/12"],
            "environment": {"SECOND": "it's $HOME"},
            "pre_execution": "ulimit -c 0\nexport STAGE=/tmp/$USER",
            "post_execution": "rm -rf \"$STAGE\"",
            "join_output": False,
        },
        "target": {"modules": ["python/3.11"]},
        "resources": {"nodes": 1, "ranks": 4, "ranks_per_node": 4, "threads": 2, "gpus": 1},
        "environment": {"FIRST": "two\r\nlines"},
        "candidate": {"preload": ["libtcmalloc_minimal.so.4"], "environment": {"KERAS_BACKEND": "jax"}},
    },
    "scratch": {
        "job": {"scratch": "$TMPDIR", "post_execution": "tar -cf model.tar model"},
        "application": {"outputs": ["model.tar", "a b"], "metrics": "metrics.json"},
        "candidate": {"runtime": "apptainer", "image": {"reference": "docker://busybox:1", "digest": "sha256:" + ZERO}},
    },
    "array": {"job": {"array": "0-9%2", "dependency": ["afterok:12"]}},
}  # fmt: skip


def _script(scheduler: str, name: str) -> str:
    more = JOBS[name]
    if scheduler == "process":
        more = {**more, "job": {k: v for k, v in more["job"].items() if k not in ("account", "partition")}}
    if scheduler in ("torque", "openpbs") and name == "array":
        more = {**more, "job": {**more["job"], "dependency": ["afterok:12.vm"]}}
    if scheduler == "gridengine":
        if name == "array":
            more = {**more, "job": {**more["job"], "array": "1-9%2", "dependency": ["afterany:12"]}}
        more = {**more, "target": {**more.get("target", {}), "parallel_environment": "smp"}}
    return make(scheduler, **more).script()


CASES = [
    (scheduler, name)
    for scheduler in ("slurm", "torque", "openpbs", "gridengine", "process")
    for name in JOBS
    if (scheduler, name) != ("process", "array")
]


@pytest.mark.parametrize(("scheduler", "name"), CASES)
def test_script_is_as_it_was(scheduler: str, name: str) -> None:
    golden = DATA / "golden" / f"{scheduler}-{name}.sh"
    script = _script(scheduler, name)
    if os.environ.get("MODAK_GOLDEN") == "write":
        golden.write_text(script)
    assert script == golden.read_text()


@pytest.mark.parametrize(("scheduler", "name"), CASES)
def test_shellcheck_finds_nothing(scheduler: str, name: str) -> None:
    # SC2016: what would expand outside of the quotes is literal on purpose.
    done = subprocess.run(
        ["shellcheck", "--exclude=SC2016", "-"], input=_script(scheduler, name), capture_output=True, text=True
    )
    assert done.stdout == ""


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
def test_every_shell_reads_it(shell: list[str]) -> None:
    for scheduler, name in CASES:
        done = subprocess.run([*shell, "-n"], input=_script(scheduler, name), capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_shellcheck_finds_nothing_in_the_steps() -> None:
    folder = Path(__file__).parents[3] / "modak_deploy" / "schedulers" / "sh"
    before = {"process": "process", "torque_find": "pbs_find", "openpbs_find": "pbs_find"}
    for file in sorted(folder.glob("*.sh")):
        shared = before.get(file.stem, before.get(file.stem.partition("_")[0], ""))
        text = (folder / f"{shared}.sh").read_text() if shared and shared != file.stem else ""
        # SC2317: a file of shared functions does not call all of them.
        done = subprocess.run(
            ["shellcheck", "--exclude=SC2317", "-"], input=text + file.read_text(), capture_output=True, text=True
        )
        assert done.stdout == "", file.name


def test_a_site_can_replace_the_template() -> None:
    part = make("slurm", ("echo", "a b"))
    assert part.script("#!/bin/sh\n{{ directives[0] }}\n{{ launch }}\n") == (
        "#!/bin/sh\n#SBATCH --job-name=digits\necho 'a b'\n"
    )


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{{ nosuch }}", "the job template cannot be filled: 'nosuch' is undefined"),
        ("a\n{% if %}", "the job template cannot be filled (line 2): "),
        ("{{ launch.__class__.__mro__ }}", "the job template cannot be filled: access to attribute '__class__'"),
    ],
)
def test_a_faulty_template_is_refused(template: str, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        make("slurm").script(template)
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    ("key", "value"),
    [("modules", ["gcc/12"]), ("pre_execution", "true"), ("post_execution", "true"), ("scratch", "/local")],
)
def test_a_template_that_leaves_out_what_is_asked_for_is_refused(key: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"^job\.{key} cannot be honoured by this job template"):
        make("slurm", job={key: value}).script("{{ launch }}")


def test_a_template_with_dos_line_ends_gives_a_script_without() -> None:
    assert make("slurm", ("true",)).script("#!/bin/sh\r\n{{ launch }}\r\n") == "#!/bin/sh\ntrue\n"


def test_the_default_template_is_the_roles() -> None:
    top = Path(__file__).parents[3]
    assert default_template() == (top / "roles" / "batch_job" / "templates" / "job.sh.j2").read_text()
