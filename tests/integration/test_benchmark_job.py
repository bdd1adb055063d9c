"""A benchmark as a real job on this machine: the default, a faster lever, and a planted one with wrong results."""

import json

import pytest
from typer.testing import CliRunner

from modak_deploy.cli import _mount, app
from modak_deploy.performance.store import Store

PROGRAM = """
import json, os, time
planted = os.environ.get("PLANTED")
time.sleep(0.01 if planted else 0.2)
value = 1.0 if planted == "wrong" else 2.0
json.dump({"value": value, "first_epoch_seconds": 0.002, "later_epoch_seconds": [0.001]}, open("metrics.json", "w"))
json.dump([value] * 3, open("out.json", "w"))
"""
LEVERS = """
version: 1
groups:
  - {name: planted, summary: planted levers}
levers:
  - {name: planted-wrong, group: planted, summary: wrong and fast, environment: {PLANTED: wrong}}
  - {name: planted-fast, group: planted, summary: faster, environment: {PLANTED: fast}}
"""


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MODAK_MEASUREMENTS", raising=False)
    (tmp_path / "work.py").write_text(PROGRAM)
    (tmp_path / "levers").mkdir()
    (tmp_path / "levers" / "levers.yaml").write_text(LEVERS)
    path = tmp_path / "deploy.yml"
    path.write_text(
        f"""
application:
  {{name: work, script: work.py, type: hpc, metrics: metrics.json, outputs: [out.json],
    workload: {{model: work, unit: run, units: 2}}}}
target: {{name: localhost, type: machine, workspace: {tmp_path}/workspace}}
request: {{catalogue: [levers]}}
"""
    )
    return path


def benchmark(document, *options):
    _mount(["benchmark"])
    words = ["benchmark", str(document), "--least", "3", "--most", "3", "--others", "1000", *options]
    return (
        CliRunner().invoke(app, [*words, "--results", str(document.parent / "results")], catch_exceptions=False).output
    )


def test_a_wrong_lever_is_refused_and_a_right_one_is_measured_and_recorded(document):
    levers = ["--lever", "planted-fast", "--lever", "planted-wrong"]
    said = benchmark(document, *levers, "--record")
    assert "3 configurations: as-is, planted-fast, planted-wrong" in said
    assert "refused: planted-wrong: metrics.value differs from the default's by 0.5" in said
    assert "The fastest was planted-fast" in said
    assert "2 new measurements, 0 known already" in said
    folder = document.parent / "results" / "work-benchmark"
    repeats = [json.loads(line) for line in (folder / "benchmark" / "repeats.jsonl").read_text().splitlines()]
    orders = [[one["name"] for one in repeats if one["block"] == block] for block in range(3)]
    assert all(sorted(order) == ["as-is", "planted-fast"] for order in orders)
    assert "planted-fast" in (folder / "report.html").read_text()
    records = Store(make=False).all_records()
    assert {tuple(record.configuration.levers) for record in records} == {(), ("planted-fast",)}
    assert all([run.block for run in record.runs] == [0, 1, 2] for record in records)
    again = benchmark(document, *levers, "--record")
    assert "0 new measurements, 2 known already" in again
