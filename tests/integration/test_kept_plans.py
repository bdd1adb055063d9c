"""A kept Plan that somebody has edited is not run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from endings import assert_unchanged, one_sentence
from sites import Site

Edit = Callable[[dict[str, Any], str], object]
EDITS: dict[str, Edit] = {
    "pre_execution": lambda p, line: p["job"].update(pre_execution=line),
    "post_execution": lambda p, line: p["job"].update(post_execution=line),
    "argv": lambda p, line: p["chosen"].update(argv=["sh", "-c", line]),
    "preload": lambda p, line: p["chosen"].update(preload=["evil.so"]),
    "candidate-environment": lambda p, line: p["chosen"]["environment"].update(LD_PRELOAD="/evil.so"),
    "environment": lambda p, line: p["application"]["environment"].update(ENV=line),
    "executable": lambda p, line: p["application"].update(executable=line),
    "launcher": lambda p, line: p["chosen"].update(launcher="x.py", launcher_text=line),
    "workspace": lambda p, line: p["target"].update(workspace="/tmp/elsewhere"),
    "scheduler": lambda p, line: p.update(scheduler="slurm"),
    "image": lambda p, line: p["chosen"].update(runtime="apptainer", image={"reference": "docker://evil/evil:1"}),
    "secrets": lambda p, line: p.update(secrets={"TOKEN": "0" * 64}),
}
QUICK = {
    "same-controller": ["argv"],
    "another-controller": ["argv", "environment", "workspace", "scheduler", "image", "launcher"],
}
"""What ``make test`` tries: a plan that this controller wrote is not compared once it was changed, and one that another
controller wrote is compared by parts. tests/unit/optimiser/test_planner.py compares after each edit.
"""
EDITED = [
    pytest.param(name, controller, id=f"{name}-{controller}", marks=[] if name in quick else [pytest.mark.long])
    for controller, quick in QUICK.items()
    for name in EDITS
]


def document(folder: Path) -> dict[str, Any]:
    line = f"echo run >>{folder}/trace"
    return {
        "application": {"name": "kept", "type": "hpc", "executable": "sh", "arguments": ["-c", line]},
        "target": {"name": "here", "workspace": str(folder / "space")},
    }


@pytest.mark.parametrize(("name", "controller"), EDITED)
def test_an_edited_plan_is_made_again(machine_site: Site, name: str, controller: str, tmp_path: Path) -> None:
    folder, forgotten = machine_site.folder, controller == "another-controller"
    machine_site.write(document(folder))
    deployed = machine_site.play("deploy")
    assert deployed.code == 0, deployed.text
    path = machine_site.results / "kept" / "plan.json"
    before = json.loads(path.read_text())
    edited = json.loads(path.read_text())
    EDITS[name](edited, f"touch {folder}/proof")
    path.write_text(json.dumps(edited))
    if forgotten:
        machine_site.environment = {**machine_site.environment, "XDG_STATE_HOME": str(tmp_path / "fresh")}
    again = machine_site.play("deploy")
    assert again.code == 0, again.text
    assert ("plan.json: the file was changed after modak wrote it" in again.text) is not forgotten
    after = json.loads(path.read_text())
    assert {key: value for key, value in after.items() if key != "created"} == {
        key: value for key, value in before.items() if key != "created"
    }
    assert (folder / "trace").read_text() == "run\n"  # the job is the same, and is not run twice
    assert not (folder / "proof").exists()
    assert not Path("/tmp/elsewhere").exists()


def test_a_plan_of_another_controller_is_kept(machine_site: Site, tmp_path: Path) -> None:
    machine_site.write(document(machine_site.folder))
    assert machine_site.play("deploy").code == 0
    machine_site.environment = {**machine_site.environment, "XDG_STATE_HOME": str(tmp_path / "fresh")}
    assert_unchanged(machine_site.play("deploy"))


def test_a_plan_of_the_version_before_is_made_again(machine_site: Site) -> None:
    machine_site.write(document(machine_site.folder))
    assert machine_site.play("deploy").code == 0
    path = machine_site.results / "kept" / "plan.json"
    path.write_text(path.read_text().replace('"modak.plan/2"', '"modak.plan/1"'))
    again = machine_site.play("deploy")
    assert again.code == 0, again.text
    assert (
        "version 1 of the Plan is not supported by this modak; it is not used, and the plan is made again" in again.text
    )
    assert json.loads(path.read_text())["schema"] == "modak.plan/2"
    assert (machine_site.folder / "trace").read_text() == "run\n"  # the job is the same, and is not run twice


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "plan.json: the JSON is nested too deeply; remove it"),
        ('{"a":' * 100_000, "plan.json: the JSON is nested too deeply; remove it"),
        ('{"created": ' + "9" * 5000 + "}", "plan.json: not valid JSON: a number has 5000 digits"),
        ('{"gain": 1e999}', "plan.json: not valid JSON: the number 1e999 is too large"),
        ("", "plan.json:1: not valid JSON"),
        ("{}", "plan.json: the key 'scheduler' is required"),
        ('{"schema": "modak.plan/3"}', "version 3 of the Plan is not supported by this modak, which reads version 2"),
        ("\x00\x01", "plan.json"),
    ],
    ids=["lists", "mappings", "digits", "float", "empty", "object", "newer", "binary"],
)
def test_a_file_that_is_no_plan_is_one_sentence(machine_site: Site, text: str, sentence: str) -> None:
    machine_site.write(document(machine_site.folder))
    path = machine_site.results / "kept" / "plan.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    one_sentence(machine_site.play("deploy"), sentence)
    assert not (machine_site.folder / "space").exists()


def test_a_plan_of_another_run_is_refused(machine_site: Site) -> None:
    machine_site.write(document(machine_site.folder))
    assert machine_site.play("deploy").code == 0
    shutil.copytree(machine_site.results / "kept", machine_site.results / "other")
    data = document(machine_site.folder)
    data["application"]["name"] = "other"
    machine_site.write(data)
    one_sentence(machine_site.play("undeploy"), "this is the Plan of the run 'kept', not of 'other'")
    assert len(list((machine_site.folder / "space" / "runs").iterdir())) == 1


def test_undeploy_goes_only_where_the_document_or_modak_itself_says(machine_site: Site) -> None:
    folder = machine_site.folder
    machine_site.write(document(folder))
    assert machine_site.play("deploy").code == 0
    path = machine_site.results / "kept" / "plan.json"
    edited = json.loads(path.read_text())
    edited["target"]["workspace"] = str(folder / "victim")
    path.write_text(json.dumps(edited))
    one_sentence(
        machine_site.play("undeploy"), "was changed after modak wrote it", "does not describe its target 'here'"
    )
    assert len(list((folder / "space" / "runs").iterdir())) == 1
