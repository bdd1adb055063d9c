"""The playbooks where several targets would do: the best one is found, used, found again and undeployed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from endings import assert_unchanged, jobs_of, one_sentence
from rig import Rig
from sites import Site

Document = Callable[..., dict[str, Any]]


def described(folder: Path) -> dict[str, Any]:
    """Return a document whose first target is too small, and whose second, the same machine, is not."""
    return {
        "application": {"name": "two-places", "type": "hpc", "executable": "sh", "arguments": ["-c", "echo 1 >out"],
                        "outputs": ["out"]},
        "target": {"name": "small", "workspace": str(folder / "small"), "node": {"cores": 1}},
        "other_targets": [{"name": "large", "workspace": str(folder / "large"), "node": {"cores": 8}}],
        "job": {"cores_per_rank": 2},
    }  # fmt: skip


def plan_in(site: Site) -> dict[str, Any]:
    (path,) = site.results.glob("*/plan.json")
    return json.loads(path.read_text())


def runs(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*/runs/*")]


def test_the_target_that_can_is_used_and_found_again(machine_site: Site) -> None:
    folder = machine_site.folder
    document = described(folder)
    machine_site.write(document)
    checked = machine_site.play("deploy", "--check", "--diff")
    assert (checked.code, runs(folder), machine_site.results.exists()) == (0, [], False), checked.text
    assert "echo 1 >out" in checked.text
    deployed = machine_site.play("deploy")
    assert deployed.code == 0, deployed.text
    assert "small: 1 rank on a node with 2 cores each need 2 cores" in deployed.text
    plan = plan_in(machine_site)
    assert (plan["target"]["name"], [other["target"]["name"] for other in plan["other_targets"]]) == (
        "large",
        ["small"],
    )
    assert [path.parts[-3] for path in folder.glob("*/runs/*")] == ["large"]
    assert (machine_site.results / "two-places" / "out").read_text() == "1\n"
    assert_unchanged(machine_site.play("deploy"))

    document["other_targets"][0]["name"] = "renamed"
    machine_site.write(document)
    undeployed = machine_site.play("undeploy")
    assert (undeployed.code, runs(folder)) == (0, []), undeployed.text
    assert_unchanged(machine_site.play("undeploy"))


def nowhere(document: dict[str, Any]) -> None:
    document["other_targets"].append({"name": "nowhere", "host": "nowhere.invalid"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["job"].update(cores_per_rank=99), ("no target can do what was asked", "on small: ", "on large: ")),
        (lambda d: d["other_targets"][0].update(name="small"), ("two targets have the name 'small'",)),
        (lambda d: d["other_targets"][0].update(kores=8), ("deploy.yml:", "other_targets[0]: unknown key 'kores'")),
        (lambda d: d.update(other_targets={"name": "x"}), ("other_targets: must be a list, not a mapping",)),
        (nowhere, ("nowhere.invalid cannot be reached",)),
    ],
    ids=["too-large", "one-name", "unknown-key", "no-list", "unreachable"],
)
def test_what_cannot_work_is_one_sentence_and_runs_nothing(
    machine_site: Site, change: Callable[[dict[str, Any]], object], words: tuple[str, ...]
) -> None:
    document = described(machine_site.folder)
    change(document)
    machine_site.write(document)
    one_sentence(machine_site.play("deploy"), *words)
    assert runs(machine_site.folder) == []


def test_slurm_over_ssh_stands_in_for_a_machine_that_is_too_small(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document = tiny_on_slurm("--numbers", "10", cores_per_rank=2)
    slurm = document["target"]
    document["target"] = {"name": "small", "workspace": str(slurm_site.folder / "small"), "node": {"cores": 1}}
    document["other_targets"] = [slurm]
    slurm_site.write(document)
    deployed = slurm_site.play("deploy")
    assert deployed.code == 0, deployed.text
    assert [real_slurm.ended(job)[1] for job in jobs_of(real_slurm, document)] == ["COMPLETED"]
    assert_unchanged(slurm_site.play("deploy"))
    undeployed = slurm_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not list(real_slurm.home.glob(f".modak/runs/{document['application']['name']}-*"))


@pytest.mark.parametrize("playbook", ["benchmark", "tune"])
def test_what_cannot_be_measured_on_is_refused_and_not_passed_over(playbook: str, machine_site: Site) -> None:
    document = described(machine_site.folder)
    machine_site.write(document)
    ignored = machine_site.play(playbook, "-e", "wait=false")
    assert ignored.code != 0 and "the extra variable 'wait' is not supported" in ignored.text
    several = machine_site.play(playbook)
    assert several.code != 0 and "other_targets is not supported" in several.text
    del document["other_targets"]
    cloud = {"provider": "aws", "region": "us-east-1", "machine_image": "ami-1", "access": ["192.0.2.0/24"]}
    document["target"] = {"name": "aws", "type": "cloud", "user": "admin", "private_key": "key", "cloud": cloud}
    machine_site.write(document)
    created = machine_site.play(playbook)
    assert created.code != 0 and "target.type: cloud is not supported" in created.text
    assert not machine_site.results.exists()
