"""The tune playbook and its role: on this machine and on the real Slurm, a second time, and in check mode."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rig import Rig
from sites import Ended, Site

PROGRAM = """i=0
while [ "$i" -lt 30 ]; do
  i=$((i + 1))
  sleep "${PAUSE:-0.3}"
  echo "step $i"
done
"""
LEVERS = """version: 1
groups:
  - {name: pauses, summary: how long the program pauses}
levers:
  - {name: short, group: pauses, summary: short pauses, environment: {PAUSE: "0.1"}}
  - {name: long, group: pauses, summary: long pauses, environment: {PAUSE: "0.9"}}
"""
FORBIDDEN = ["malloc-hugepages", "tcmalloc", "jemalloc", "omp-close", "omp-spread", "one-thread"]
OPTIONS = ["-e", "rounds=1", "-e", "batch=2", "-e", "budget=30", "-e", "confirm=2"]


def tuned(site: Site, target: dict[str, Any], host: str) -> None:
    (site.folder / "program.sh").write_text(PROGRAM)
    catalogue = site.folder / "catalogue"
    catalogue.mkdir()
    (catalogue / "levers.yaml").write_text(LEVERS)
    site.write(
        {
            "application": {
                "name": "pauses", "type": "hpc", "executable": "sh", "arguments": ["program.sh"],
                "inputs": ["program.sh"], "progress": r"step (\d+)",
                "workload": {"model": "pauses", "unit": "iteration", "units": 30},
            },
            "target": {"name": host, "polling": {"first": 0.3, "maximum": 1.0}, **target},
            "request": {"catalogue": ["catalogue"], "forbid_levers": FORBIDDEN},
        }
    )  # fmt: skip
    checked = play(site, "--check", *OPTIONS)
    assert changed(checked, host) == 1, checked.text  # it would search
    first = play(site, *OPTIONS)
    assert changed(first, host) == 1, first.text
    assert re.search(r"short is [23]\.\d\d \(", first.text), first.text
    again = play(site, *OPTIONS)
    assert changed(again, host) == 0, again.text
    assert re.search(r"short is [23]\.\d\d \(", again.text), again.text
    assert changed(play(site, "--check", "-e", "record=false", *OPTIONS), host) == 0


def play(site: Site, *arguments: str) -> Ended:
    ended = site.play("tune", *arguments, timeout=400)
    assert ended.code == 0, ended.text
    return ended


def changed(ended: Ended, host: str) -> int:
    """Return how many tasks on the target changed something, by the recap."""
    (count,) = re.findall(rf"^{host} .*changed=(\d+)", ended.text, re.MULTILINE)
    return int(count)


@pytest.fixture
def make_site(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Site]:
    pytest.importorskip("optuna", reason="modak tune needs Optuna: pip install 'modak-deploy[tune]'")

    def make(inventory: Path | None = None) -> Site:
        data = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
        (tmp_path / "site").mkdir()
        return Site(tmp_path / "site", {**environment, **data}, inventory)

    return make


def test_on_this_machine(make_site: Callable[..., Site], tmp_path: Path) -> None:
    tuned(make_site(), {"name": "localhost", "workspace": str(tmp_path / "space")}, "this-machine")


def test_on_slurm(make_site: Callable[..., Site], real_slurm: Rig) -> None:
    tuned(make_site(real_slurm.inventory), {"type": "slurm", "host": "slurm-login"}, "slurm-login")


def test_hosts_of_a_play_search_each_for_itself(make_site: Callable[..., Site], tmp_path: Path) -> None:
    site = make_site()
    (site.folder / "program.sh").write_text(PROGRAM)
    (site.folder / "catalogue").mkdir()
    (site.folder / "catalogue" / "levers.yaml").write_text(LEVERS)
    hosts = {name: {"ansible_connection": "local", "home": str(tmp_path / name)} for name in ("w1", "w2")}
    for name in hosts:
        (tmp_path / name).mkdir()
    role = {
        "tune_application": {
            "name": "pauses", "type": "hpc", "executable": "sh", "arguments": ["program.sh"],
            "inputs": ["program.sh"], "progress": r"step (\d+)",
            "workload": {"model": "pauses", "unit": "iteration", "units": 30},
        },
        "tune_target": {"name": "worker", "polling": {"first": 0.3, "maximum": 1.0}},
        "tune_request": {"catalogue": ["catalogue"], "forbid_levers": FORBIDDEN},
        "tune_rounds": 1, "tune_batch": 2, "tune_budget": 30, "tune_confirm": 2, "tune_record": False,
    }  # fmt: skip
    task = {"ansible.builtin.include_role": {"name": "modak.deploy.tune"}, "vars": role}
    # One after the other: both are this machine, on which a running job is found by its tag.
    play = {"hosts": "all", "serial": 1, "gather_facts": False, "environment": {"HOME": "{{ home }}"}, "tasks": [task]}
    (site.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (site.folder / "play.yml").write_text(yaml.safe_dump([play]))
    with site.started(["ansible-playbook", "-i", "inventory.yml", "play.yml"]) as running:
        ended = running.end(400)
    assert ended.code == 0, ended.text
    assert [changed(ended, host) for host in hosts] == [1, 1], ended.text
    runs = {host: (tmp_path / host / ".modak" / "runs").iterdir() for host in hosts}
    jobs = {host: sorted(path.name.rpartition("-")[0] for path in paths) for host, paths in runs.items()}
    assert jobs == {host: ["pauses-tune-0", "pauses-tune-confirm"] for host in hosts}
    assert sorted(path.name for path in (site.folder / "results").iterdir()) == ["w1", "w2"]
