"""The playbooks on a real Slurm, over ssh, as an unprivileged user: every way in, and every way that a job ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from endings import assert_unchanged, jobs_of, one_sentence
from rig import TOP, Rig
from sites import Site

Document = Callable[..., dict[str, Any]]


def metrics_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("metrics.json"))]


def test_a_job_runs_and_its_results_come_back(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--numbers", "100", "--text", "a 'b' \"c\" $HOME `id` ; & ü", "--seconds", "3")
    slurm_site.write(document)
    with slurm_site.start("deploy") as running:
        (job,) = running.wait_for(lambda: jobs_of(real_slurm, document, "RUNNING"))
        ended = running.end(120)
    assert ended.code == 0, ended.text
    assert real_slurm.ended(job)[1] == "COMPLETED"
    (metrics,) = metrics_in(slurm_site.results)
    assert metrics["sum"] == sum(n * n for n in range(100))
    assert metrics["text"] == document["application"]["arguments"][3]
    assert metrics["job"] == job
    assert metrics["user"] == real_slurm.home.stat().st_uid
    assert "completed" in ended.text.lower()


def test_a_second_run_changes_nothing(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--numbers", "10")
    slurm_site.write(document)
    first = slurm_site.play("deploy")
    assert first.code == 0, first.text
    second = slurm_site.play("deploy")
    assert_unchanged(second)
    assert len(jobs_of(real_slurm, document)) == 1
    forced = slurm_site.play("deploy", "-e", "force=true")
    assert forced.code == 0, forced.text
    assert len(jobs_of(real_slurm, document)) == 2


def test_check_mode_submits_nothing_and_shows_the_script(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document = tiny_on_slurm("--numbers", "11")
    slurm_site.write(document)
    ended = slurm_site.play("deploy", "--check", "--diff")
    assert ended.code == 0, ended.text
    assert "#SBATCH" in ended.text
    assert not jobs_of(real_slurm, document)
    assert not slurm_site.results.exists()


def test_a_job_cancelled_from_outside_ends_as_cancelled(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document = tiny_on_slurm("--seconds", "300")
    slurm_site.write(document)
    with slurm_site.start("deploy") as running:
        (job,) = running.wait_for(lambda: jobs_of(real_slurm, document, "RUNNING"))
        real_slurm.ssh(f"scancel {job}")
        one_sentence(running.end(30), "cancelled", job)


def test_the_exit_code_of_the_script_is_told(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    slurm_site.write(tiny_on_slurm("--exit", "3"))
    one_sentence(slurm_site.play("deploy"), "3", "failed")


def test_undeploy_cancels_a_running_job(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--seconds", "300")
    name = document["application"]["name"]
    slurm_site.write(document)
    with slurm_site.start("deploy", "-e", "wait=false") as running:
        deployed = running.end(60)
        assert deployed.code == 0, deployed.text
        (job,) = running.wait_for(lambda: jobs_of(real_slurm, document, "RUNNING"))
    assert list(real_slurm.home.glob(f".modak/runs/{name}-*"))
    undeployed = slurm_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert real_slurm.ended(job)[1] == "CANCELLED"
    assert not list(real_slurm.home.glob(f".modak/runs/{name}-*"))
    again = slurm_site.play("undeploy")
    assert_unchanged(again)


def misspelt(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "job": {"wall_tmie": "5m"}}


def without_script(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "application": {**document["application"], "script": "nowhere.py"}}


def at_a_closed_port(document: dict[str, Any]) -> dict[str, Any]:
    target = {**document["target"], "host": "127.0.0.1", "port": 9, "user": "nobody"}
    return {**document, "target": target}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (misspelt, ("wall_tmie", "wall_time")),
        (without_script, ("nowhere.py",)),
        (at_a_closed_port, ("127.0.0.1",)),
        (lambda _: "", ("deploy.yml", "the document is empty")),
        (lambda _: {}, ("deploy.yml", "the document is empty")),
    ],
    ids=["misspelt", "missing-file", "unreachable", "empty-document", "empty-mapping"],
)
def test_what_cannot_work_is_told_in_a_sentence_and_submits_nothing(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document, fault: Callable[..., Any], words: tuple[str, ...]
) -> None:
    document = tiny_on_slurm()
    slurm_site.write(fault(document))
    one_sentence(slurm_site.play("deploy"), *words)
    assert not jobs_of(real_slurm, document)


def test_a_job_that_the_scheduler_refuses_is_told_in_its_words(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document = tiny_on_slurm(nodes=99)
    slurm_site.write(document)
    one_sentence(slurm_site.play("deploy"), "99")
    assert not jobs_of(real_slurm, document)


def test_the_digits_job(slurm_site: Site, real_slurm: Rig, keras_python: str) -> None:
    example = TOP / "examples" / "digits" / "deploy.yml"
    application = yaml.safe_load(example.read_text())["application"]
    application |= {"script": str(example.parent / application["script"]), "arguments": ["--epochs", "2"]}
    application["workload"] |= {"units": 2}
    target = {"name": "rig", "type": "slurm", "host": "slurm-login", "python": keras_python}
    slurm_site.write({"application": application, "target": target, "job": {"wall_time": "10m", "threads": 2}})
    ended = slurm_site.play("deploy", timeout=300)
    assert ended.code == 0, ended.text
    (metrics,) = metrics_in(slurm_site.results)
    assert metrics["epochs"] == 2
    assert metrics["accuracy"] > 0.5
