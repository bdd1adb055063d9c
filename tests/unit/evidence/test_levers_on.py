"""Benchmarks: a configuration counts only where its levers inside the program were on, with all of their settings."""

import json
from datetime import UTC, datetime

import pytest

from evidence_parts import FACTS, drive
from modak_deploy.catalogue import load_catalogue
from modak_deploy.evidence.configurations import Wanted, entry, plans_of
from modak_deploy.evidence.driver.runs import Run
from modak_deploy.evidence.protocol import outcomes, read_repeats
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan

COUNTED = {"event": "state", "name": "inference: net", "units": 9, "seconds": 2.0, "steady": 0.1}
LEVERS = ["onnxruntime-openvino", "onnxruntime-one-thread"]


def off(folder, *entries, levers=LEVERS, counted=COUNTED):
    record = folder / "launch" / "record"
    record.mkdir(parents=True)
    (record / "a.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in (*entries, counted)))
    return Run({}, {"launch": {"levers": levers}}, str(folder)).off()


ALL = {"event": "chosen", "of": "net", "variant": " + ".join(LEVERS)}
SECOND = {"event": "chosen", "of": "net", "variant": LEVERS[1]}
AT_START = {"event": "lever", "lever": LEVERS[0]}
LACKING = {"event": "not_offered", "lever": LEVERS[0], "reason": "no such build"}
BROKEN = {"event": "fallback", "what": " + ".join(LEVERS), "reason": "ValueError: x"}
GIVEN_UP = {"event": "given_up", "of": "net", "variant": " + ".join(LEVERS), "reason": "ValueError: x"}
ENDED = {**GIVEN_UP, "reason": "the program uses autocast itself"}
NOTHING = {"event": "no_trials", "of": "net", "reason": "it holds weights of another type"}
FAILED = {"event": "fallback", "what": LEVERS[0], "reason": "no such attribute"}
OTHER = {"event": "fallback", "what": "the observation of onnxruntime", "reason": "x"}


@pytest.mark.parametrize(
    ("entries", "answer"),
    [
        ([ALL, OTHER], None),
        ([AT_START, SECOND], None),
        ([LACKING, ALL], None),  # of a second session, which can have it
        ([LACKING, SECOND], "onnxruntime-openvino was not on: no such build"),
        ([ALL, BROKEN, GIVEN_UP], "onnxruntime-openvino was not on: ValueError: x"),
        ([ALL, ENDED], "onnxruntime-openvino was not on: the program uses autocast itself"),  # without a fallback
        ([ALL, ALL, BROKEN, GIVEN_UP], None),  # of one of two sessions, which have one name
        ([FAILED, SECOND], "onnxruntime-openvino was not on: no such attribute"),
        ([NOTHING], "onnxruntime-openvino was not on: it holds weights of another type"),
        ([LACKING, NOTHING], "onnxruntime-openvino was not on: no such build"),
        ([], "onnxruntime-openvino was not on: the launcher did not switch it on"),
    ],
)
def test_levers_that_were_not_on_are_named(tmp_path, entries, answer):
    assert off(tmp_path, *entries) == answer


def test_nothing_is_said_where_the_launcher_saw_no_work(tmp_path):
    assert off(tmp_path / "1", LACKING, counted={"event": "end"}) is None
    assert off(tmp_path / "2", LACKING, levers=[]) is None


def test_a_configuration_without_its_lever_is_refused(tmp_path):
    """It is the default under another name, whose gain of 1.00 later Plans would rest on."""
    entries = "".join(json.dumps(entry) + "\n" for entry in (LACKING, SECOND, COUNTED))
    write = f"mkdir -p ../launch/record; printf %s '{entries}' >../launch/record/a.jsonl; echo 1 >out.txt"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "modak_launch.zip").write_bytes(b"")
    launch = {"openvino": {"levers": LEVERS}, "thread": {"levers": LEVERS[1:]}}
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt", "openvino": write, "thread": write}, launch=launch)
    assert done.returncode == 0, done.stderr
    results = {one.name: one for one in outcomes(read_repeats(work / "benchmark"))}
    assert results["openvino"].fault == "onnxruntime-openvino was not on: no such build"
    assert (results["thread"].fault, len(results["thread"].counted)) == (None, 2)


ARENA = """version: 1
groups: [{name: arena, summary: memory of sessions}]
levers:
  - {name: no-arena, group: arena, summary: no arena, effects: {session: {enable_cpu_mem_arena: false}}}
"""


@pytest.mark.parametrize("counts", [True, False])
def test_options_of_sessions_are_on_where_they_are_measured(tmp_path, counts):
    """They were left out, and the lever was the default under its name."""
    (tmp_path / "levers.yaml").write_text(ARENA)
    catalogue = load_catalogue([tmp_path / "levers.yaml"])
    application = {"name": "x", "script": "infer.py", "framework": {"name": "onnxruntime"}}
    deployment = Deployment.model_validate({"application": {**application, "type": "ai_inference"}})
    facts = Facts.model_validate({**FACTS, "packages": {"onnxruntime": "1.20.1"}})
    plan = make_plan(deployment, facts, [], now=datetime(2026, 1, 1, tzinfo=UTC), catalogue=catalogue)
    default, other = plans_of(plan, Wanted(levers=["no-arena"]), catalogue)
    launch = entry(other, counts=counts)["launch"]
    assert launch["levers"] == ["onnxruntime-options"]
    assert launch["settings"] == {"onnxruntime-options": {"enable_cpu_mem_arena": False}}
    assert not (entry(default, counts=True)["launch"]["levers"])
