"""Large files and many of them: how they travel to a job and back."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobplans import source
from modak_deploy.jobrequest import PlanDocument
from modak_deploy.jobs import files
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.results import transfer
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from transports import Counting


def test_large_files_travel_alone(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGE", 1000)
    monkeypatch.setattr(transfer, "LARGE", 1000)
    file = tmp_path / "large"
    file.write_bytes(os.urandom(100_000))
    item = source("in/large", file)
    deployed = shell("cp in/large out; echo small >small", sources=(item,), outputs=["out", "small"])
    present = jobs.present(deployed, [item])
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path / "results")
    assert (tmp_path / "results" / "probe" / "out").read_bytes() == file.read_bytes()
    assert (tmp_path / "results" / "probe" / "small").read_text() == "small\n"


def test_many_files_travel_in_several_batches(
    hasty: Timeouts, shell: Callable[..., JobRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGE", 100_000)
    (tmp_path / "in").mkdir()
    for number in range(10):
        (tmp_path / "in" / f"{number}").write_bytes(bytes([number]) * 30_000)
    items = tuple(source(f"in/{number}", tmp_path / "in" / f"{number}") for number in range(10))
    deployed = shell("cat in/* | wc -c >out", sources=items, outputs=["out"])
    transport = Counting()
    jobs = Jobs(transport, timeouts=hasty)
    present = jobs.present(deployed, items)
    assert transport.trips == 1 + 4 + 1
    jobs.fetch_results(present.job, jobs.wait([present])[0], tmp_path / "results")
    assert (tmp_path / "results" / "probe" / "out").read_text().strip() == "300000"


def test_many_small_files_come_in_several_answers(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BATCH", 3000)
    present = jobs.present(shell("mkdir o; for i in 1 2 3 4 5; do seq 1 20 >o/$i; done", outputs=["o"]))
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path / "results")
    assert len(list((tmp_path / "results" / "probe" / "o").iterdir())) == 5


def test_a_newer_plan_of_the_same_job_stays(jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path) -> None:
    """Else the next run would plan anew, and this would bring back what that run replaced, for ever."""
    deployed = shell("echo 1 >out", outputs=["out"])
    present = jobs.present(deployed)
    (result,) = jobs.wait([present])
    kept = tmp_path / "results" / "probe" / "plan.json"
    kept.parent.mkdir(parents=True)
    assert isinstance(deployed.document, PlanDocument)
    plan = deployed.document.plan
    newer = plan.model_copy(update={"reason": "the catalogue has changed, and this stays the best"})
    for text in ("", plan.model_copy(update={"name": "other"}).to_json()):
        kept.write_text(text)
        assert jobs.fetch_results(present.job, result, tmp_path / "results").changed
        assert kept.read_text() == plan.to_json()
    kept.write_text(newer.to_json())
    assert not jobs.fetch_results(present.job, result, tmp_path / "results").changed
    assert kept.read_text() == newer.to_json()
