"""``benchmarks/gpu_records.py``: the measurements that ship of a GPU are those of the results beside it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from modak_deploy.catalogue.catalogue import DATA
from modak_deploy.performance.records import read_records

SHIPPED = DATA / "measurements" / "gpu-nvidia-h100.jsonl"


@pytest.fixture
def gpu_records(benchmark_module):
    pytest.importorskip("torch")
    return benchmark_module("gpu_records", "lever_table", "papers_table", "program_rows", "program_table")


@pytest.fixture
def shipped():
    """Return the records that ship, by their source and levers."""
    records = read_records(SHIPPED)
    return {(record.provenance.source, tuple(record.configuration.levers)): record for record in records}


def results(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_way_has_the_default_s_time_by_its_gain(gpu_records, shipped):
    for result in results(gpu_records.RESULTS["levers"]):
        default = result["rows"][0]["seconds"]
        for row in result["rows"]:
            record = shipped.pop((f"levers in turns, {result['case']}", tuple(row["levers"])))
            assert (record.kind, len(record.runs)) == ("trial", 1)
            assert record.runs[0].later == pytest.approx([default / row["gain"]], rel=1e-3)
            assert record.runs[0].total is None
    assert {source for source, _ in shipped} <= {f"jobs of {row.name}" for row in gpu_records.GPU_ROWS}


def test_jobs_have_their_start_what_was_made_ready_and_the_levers_they_ran_with(gpu_records, shipped):
    for entry in results(gpu_records.RESULTS["programs"]):
        if entry["arm"] not in ("default", "second-relaxed"):
            continue
        record = shipped[f"jobs of {entry['row']}", tuple(gpu_records.levers_of(entry))]
        run = next(run for run in record.runs if run.later_unit == pytest.approx(entry["steady"], rel=1e-3))
        assert run.start == pytest.approx(entry["start"], rel=1e-3)
        assert run.first - run.later_unit == pytest.approx(entry["compile"] or 0.0, rel=1e-3, abs=2e-3)


def test_a_lever_that_is_on_from_the_start_counts_beside_those_that_were_settled(gpu_records):
    settled = [{"levers": ["pytorch-channels-last"]}]
    entry = {"levers": ["pytorch-channels-last", "pytorch-cudnn-benchmark", "pytorch-tf32"], "settled": settled}
    assert gpu_records.levers_of(entry) == ["pytorch-channels-last", "pytorch-cudnn-benchmark"]
    assert gpu_records.levers_of({"levers": [], "settled": []}) == []


SEEN = """
import json, sys
sys.path[:0] = sys.argv[1:]
import gpu_records, torch
for training in (False, True):
    print(json.dumps(gpu_records.work(torch.nn.Linear(8, 4), (torch.ones(2, 8),), {}, training)))
"""


def test_a_network_s_work_is_what_the_launcher_sees(gpu_records):
    """In a process of its own: ansible-core replaces sys.intern, and torch looks for the original."""
    top = Path(gpu_records.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", SEEN, str(top), str(top.parent)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    inference, training = map(json.loads, done.stdout.splitlines())
    assert (inference["parameters"], inference["batch"], inference["flops_per_sample"]) == (36, 2, 64)
    assert training["flops_per_sample"] == 3 * 64
