"""A scheduler of another distribution: found, planned for, and its jobs run by a real queue of shell processes."""

import os
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import plugins
from modak_deploy.discovery import describe, parse_probe, probe_script, target_of
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InputError, OptionError, TargetError
from modak_deploy.extensions import LEVER_EFFECTS, RUNTIMES, SCHEDULERS
from modak_deploy.inventory import load_targets
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts, Target
from modak_deploy.planning import plan_deployment
from modak_deploy.schedulers import registry
from modak_deploy.tosca.compose import write_blueprint
from modak_deploy.tosca.validate import validate
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport

QUICK = Timeouts(settle=1.0)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The distribution modak-shellqueue, installed, and its queue on this machine; yields the queue's spool folder."""
    folder = plugins.install(plugins.DATA / "shellqueue", tmp_path / "site-packages", monkeypatch)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SQ_SPOOL", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    yield tmp_path / "spool"
    sys.modules.pop("modak_shellqueue", None)


def document(folder: Path, *arguments: str, **job: object) -> dict[str, object]:
    return {
        "application": {"name": "probe", "type": "hpc", "executable": "sh", "arguments": list(arguments)},
        "target": {
            "name": "queue",
            "type": "shellqueue",
            "workspace": str(folder / "work"),
            "polling": {"first": 0.1, "maximum": 0.2},
        },
        "job": {"wall_time": "10m", **job},
    }


def plan_of(folder: Path, *arguments: str, **job: object) -> Plan:
    deployment = parse_deployment(document(folder, *arguments, **job), origin="test")
    return plan_deployment(deployment, LocalTransport(), search=[folder], now=datetime(2026, 1, 1, tzinfo=UTC))


def test_it_is_discovered(queue: Path) -> None:
    facts = parse_probe(LocalTransport().run(probe_script(None), timeout=60).stdout, None)
    assert (facts.scheduler, facts.scheduler_version) == ("shellqueue", "1.0")
    assert [(p.name, p.maximum_wall_time) for p in facts.partitions] == [("main", 86400)]
    assert "type: shellqueue" in describe(target_of(facts, Target(name="discovered"), None))


def test_one_that_fails_at_an_answer_is_named(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = LocalTransport().run(probe_script(None), timeout=60).stdout
    monkeypatch.setattr(type(registry.get("shellqueue")), "recognise", lambda self, parts: int("x"))
    with pytest.raises(TargetError, match="scheduler 'shellqueue' cannot read what its commands answered: ValueError"):
        parse_probe(printed, None)


@pytest.mark.parametrize(("command", "state", "code"), [("echo $SQ_JOB >id", "completed", 0), ("exit 3", "failed", 3)])
def test_a_job_runs_from_its_plan_to_its_end(queue: Path, tmp_path: Path, command: str, state: str, code: int) -> None:
    plan = plan_of(tmp_path, "-c", command)
    assert (plan.scheduler, plan.facts.scheduler) == ("shellqueue", "shellqueue")
    jobs = Jobs(LocalTransport(), timeouts=QUICK)
    request = job_request(plan)
    present = jobs.present(request)
    assert f"\n#SQ tag={plan.tag()}\n" in present.script
    (result,) = jobs.wait([present])
    assert (result.state, result.exit_code, result.scheduler, result.id) == (state, code, "shellqueue", "1")
    again = jobs.present(request, retry=False)
    assert (again.made, again.job.id) == (False, "1")
    assert Plan.model_validate_json(plan.to_json()) == plan


def test_a_job_is_cancelled_and_removed(queue: Path, tmp_path: Path) -> None:
    request = job_request(plan_of(tmp_path, "-c", "sleep 600"))
    jobs = Jobs(LocalTransport(), timeouts=QUICK)
    jobs.present(request)
    assert jobs.absent(request)
    assert registry.get("shellqueue").parse_status(Completed(0, "1 cancelled\n", ""), ["1"])["1"].state == "cancelled"
    assert jobs.find(request) is None


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (Completed(0, "1 ended 3\n2 running\n", ""), {"1": ("failed", 3), "2": ("running", None)}),
        (Completed(0, "Welcome\n\n1 ended\n2 ended x\n2 ended 999\n3 gone\n1 waiting\n", ""), {"1": ("queued", None)}),
        (Completed(0, "7 running\n", ""), {}),
        (Completed(1, "", "sq: disk full"), None),
        (Completed(1, "1 running\n", "sq: no spool folder /x"), None),
        (Completed(137, "", "Killed"), None),
    ],
    ids=["both", "noise", "other", "failed", "silent", "killed"],
)
def test_what_the_queue_prints_of_jobs(
    queue: Path, answer: Completed, states: dict[str, tuple[str, int]] | None
) -> None:
    scheduler = registry.get("shellqueue")
    if states is None:
        with pytest.raises(TargetError, match="the shell queue does not answer"):
            scheduler.parse_status(answer, ["1", "2"])
    else:
        parsed = scheduler.parse_status(answer, ["1", "2"])
        assert {number: (state.state, state.exit_code) for number, state in parsed.items()} == states


def test_an_option_that_it_does_not_support_is_named(queue: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"job\.qos: not supported by shellqueue: it has no qualities of service"):
        plan_of(tmp_path, "-c", "true", qos="high")


def test_without_its_distribution_the_name_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"target\.type: must be 'machine', 'cloud', 'kubernetes', 'slurm', .* or '\w+', not 'shell",
    ):
        parse_deployment(document(tmp_path, "-c", "true"), origin="test")


def test_a_misspelt_name_gets_the_nearest_one(queue: Path, tmp_path: Path) -> None:
    wrong = document(tmp_path, "-c", "true")
    wrong["target"] = {"name": "queue", "type": "shelqueue"}
    with pytest.raises(InputError, match=r"or 'shellqueue', not 'shelqueue'; did you mean 'shellqueue'\?"):
        parse_deployment(wrong, origin="test")


def test_the_schema_lists_it_only_while_it_is_installed(queue: Path) -> None:
    queues = [name for name in SCHEDULERS.builtin if name != "process"]
    listed = Target.model_json_schema()["properties"]["type"]["enum"]
    assert listed == ["machine", "cloud", "kubernetes", *queues, "shellqueue"]
    schema = Facts.model_json_schema()["properties"]["scheduler"]
    assert schema["anyOf"][0]["enum"] == [*queues, "shellqueue"]


def test_a_blueprint_for_it_is_valid(queue: Path, tmp_path: Path) -> None:
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump(document(tmp_path, "-c", "true")))
    blueprint = write_blueprint(tmp_path / "deploy.yml", tmp_path / "blueprint")
    assert validate(blueprint) == []
    (target,) = load_targets(blueprint)
    assert target.type == "shellqueue"


@pytest.mark.parametrize(
    ("module", "entry", "message"),
    [
        ("import nothing_of_that_name", "faulty:Faulty", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemError('no')", "faulty:Faulty", "SystemError: no"),
        ("", "faulty:Faulty", "AttributeError: module 'faulty' has no attribute 'Faulty'"),
        ("Faulty = 3", "faulty:Faulty", "not a subclass of modak_deploy.schedulers.base.Scheduler"),
        (
            "from modak_deploy.schedulers.base import Scheduler\nclass Faulty(Scheduler): name = 'faulty'",
            "faulty:Faulty",
            "it has no cancel_command, check_command, directives",
        ),
        ("from modak_deploy.schedulers.slurm import Slurm as Faulty", "faulty:Faulty", "its name is 'slurm'"),
    ],
)
def test_a_faulty_distribution_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, entry: str, message: str
) -> None:
    (tmp_path / "faulty.py").write_text(module)
    plugins.register(tmp_path, "modak-faulty", {"modak.schedulers": {"faulty": entry}})
    plugins.forget(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    with pytest.raises(InputError) as raised:
        registry.get("faulty")
    sys.modules.pop("faulty", None)
    start = "the distribution modak-faulty cannot provide the scheduler 'faulty': faulty:Faulty: "
    assert str(raised.value).startswith(start + message)
    assert str(raised.value).endswith("; update or uninstall it")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"one-queue": ["slurm"]}, "one-queue registers the scheduler 'slurm', which is a name of modak's own"),
        ({"one-queue": ["sq"], "two-queue": ["sq"]}, "registers the scheduler 'sq', and so does"),
        ({"one-queue": ["machine"]}, "registers the scheduler 'machine', which is not a valid name"),
        ({"one-queue": ["My Queue"]}, "registers the scheduler 'My Queue', which is not a valid name"),
    ],
)
def test_a_name_that_cannot_be_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]], message: str
) -> None:
    for name, schedulers in names.items():
        plugins.register(tmp_path, name, {"modak.schedulers": dict.fromkeys(schedulers, "module:Class")})
    plugins.forget(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=message):
        SCHEDULERS.names()
    assert registry.get("slurm").name == "slurm", "a built-in one needs no metadata"


def test_the_builtin_ones_are_registered_as_in_the_table() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for extensions in (SCHEDULERS, RUNTIMES, LEVER_EFFECTS):
        if extensions.group in project["entry-points"]:
            assert project["entry-points"][extensions.group] == extensions.builtin
    for name in SCHEDULERS.builtin:
        assert registry.get(name).name == name
