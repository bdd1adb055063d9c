"""Benchmarks: a configuration counts only where its levers inside the program were on, with all of their settings."""

import json

import pytest

from evidence_parts import drive
from modak_deploy.evidence.driver.runs import Run
from modak_deploy.evidence.protocol import outcomes, read_repeats

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
BROKEN = {"event": "fallback", "what": LEVERS[1], "reason": "ValueError: x"}
OTHER = {"event": "fallback", "what": "the observation of onnxruntime", "reason": "x"}


@pytest.mark.parametrize(
    ("entries", "answer"),
    [
        ([ALL, OTHER], None),
        ([AT_START, SECOND], None),
        ([LACKING, ALL], None),  # of a second session, which can have it
        ([LACKING, SECOND], "onnxruntime-openvino was not on: no such build"),
        ([ALL, BROKEN], "onnxruntime-one-thread was not on: ValueError: x"),
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
