"""Metrics files: what an application may write there, and what is said of all else."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.errors import JobError
from modak_deploy.jobs.results.metrics import MAX_BYTES, parse_metrics
from targets import EndedJob

CASES = yaml.safe_load((Path(__file__).parents[3] / "data" / "results" / "metrics.yaml").read_text())


def text_of(case: dict[str, Any]) -> bytes:
    count = case.get("repeat", 1)
    text = case.get("before", "") + case["text"] * count + case.get("after", "")
    return (text + case.get("end", "") * count + case.get("close", "")).encode(
        "latin-1" if "latin" in case else "utf-8"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["error"][:50])
def test_faulty_metrics(case: dict[str, Any]) -> None:
    with pytest.raises(JobError) as caught:
        parse_metrics(text_of(case), "results/m.json")
    assert str(caught.value).startswith("results/m.json: ")
    assert case["error"] in str(caught.value)
    assert len(str(caught.value)) < 500


def test_usual_metrics() -> None:
    values = {
        "accuracy": 0.98,
        "later_epoch_seconds": [1.0] * 50_000,
        "note": "zwölf\nlines",
        "deep": {"a": [{"b": None}]},
    }
    import json

    assert parse_metrics(json.dumps(values).encode(), "m.json") == values


def test_metrics_that_are_no_file_or_too_large(tmp_path: Path) -> None:
    job = EndedJob(tmp_path, metrics="m.json")
    (job.work / "m.json").mkdir()
    with pytest.raises(JobError, match=r"results/probe/m\.json: not a file of at most 8 MiB, as metrics must be"):
        job.fetch()
    (job.work / "m.json").rmdir()
    (job.work / "m.json").write_text('{"a": 1}' + " " * MAX_BYTES)
    with pytest.raises(JobError, match=r"results/probe/m\.json: not a file of at most 8 MiB, as metrics must be"):
        job.fetch()
