"""The playbooks on a real Slurm, over ssh, as an unprivileged user: every way in, and every way that a job ends."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig import TOP, Rig
from sites import Ended, Site

Document = Callable[..., dict[str, Any]]


def one_sentence(ended: Ended, *words: str) -> None:
    """Check that a run failed with a message that has all the words, and without a traceback."""
    assert ended.code != 0, ended.text
    assert "Traceback" not in ended.text, ended.text
    messages = [line for line in ended.text.splitlines() if "ERROR" in line or "fatal:" in line]
    assert any(all(word in line for word in words) for line in messages), ended.text


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.3)
    return answer


def job_named(rig: Rig, name: str, *states: str) -> str | None:
    """Return the id of the newest job of this name that is in one of the states."""
    found = [job for job, (its_name, state) in rig.jobs().items() if its_name == name and state in states]
    return max(found, key=int, default=None)


def metrics_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("metrics.json"))]


def test_a_job_runs_and_its_results_come_back(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--numbers", "100", "--text", "a 'b' \"c\" $HOME `id` ; & ü", "--seconds", "3")
    slurm_site.write(document)
    with slurm_site.start("deploy") as process:
        job = wait_for(lambda: job_named(real_slurm, document["application"]["name"], "RUNNING", "COMPLETED"))
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert real_slurm.jobs()[job][1] == "COMPLETED"
    (metrics,) = metrics_in(slurm_site.results)
    assert metrics["sum"] == sum(n * n for n in range(100))
    assert metrics["text"] == document["application"]["arguments"][3]
    assert metrics["job"] == job
    assert metrics["user"] == real_slurm.home.stat().st_uid
    assert "completed" in text.lower()


def test_a_second_run_changes_nothing(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--numbers", "10")
    slurm_site.write(document)
    first = slurm_site.play("deploy")
    assert first.code == 0, first.text
    before = real_slurm.jobs().keys()
    second = slurm_site.play("deploy")
    assert second.code == 0, second.text
    assert "changed=0" in second.text.splitlines()[-1] or "changed=0" in second.text, second.text
    assert not [line for line in second.text.splitlines() if line.startswith("changed:")], second.text
    assert real_slurm.jobs().keys() <= before
    forced = slurm_site.play("deploy", "-e", "force=true")
    assert forced.code == 0, forced.text
    assert len(real_slurm.jobs().keys() - before) == 1


def test_check_mode_submits_nothing_and_shows_the_script(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    slurm_site.write(tiny_on_slurm("--numbers", "11"))
    before = real_slurm.jobs().keys()
    ended = slurm_site.play("deploy", "--check", "--diff")
    assert ended.code == 0, ended.text
    assert "#SBATCH" in ended.text
    assert real_slurm.jobs().keys() <= before
    assert not slurm_site.results.exists() or not metrics_in(slurm_site.results)


def test_a_job_cancelled_from_outside_ends_as_cancelled(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document = tiny_on_slurm("--seconds", "300")
    slurm_site.write(document)
    with slurm_site.start("deploy") as process:
        job = wait_for(lambda: job_named(real_slurm, document["application"]["name"], "RUNNING"))
        real_slurm.ssh(f"scancel {job}")
        text, _ = process.communicate(timeout=30)
    one_sentence(Ended(process.returncode, text), "cancelled", job)


def test_the_exit_code_of_the_script_is_told(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    slurm_site.write(tiny_on_slurm("--exit", "3"))
    one_sentence(slurm_site.play("deploy"), "3", "failed")


def test_undeploy_cancels_a_running_job(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--seconds", "300")
    name = document["application"]["name"]
    slurm_site.write(document)
    deployed = slurm_site.play("deploy", "-e", "wait=false")
    assert deployed.code == 0, deployed.text
    job = wait_for(lambda: job_named(real_slurm, name, "RUNNING"))
    assert list(real_slurm.home.glob(f".modak/runs/{name}-*"))
    undeployed = slurm_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert wait_for(lambda: real_slurm.jobs().get(job, ("", "CANCELLED"))[1] == "CANCELLED")
    assert not list(real_slurm.home.glob(f".modak/runs/{name}-*"))
    again = slurm_site.play("undeploy")
    assert again.code == 0, again.text
    assert not [line for line in again.text.splitlines() if line.startswith("changed:")], again.text


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
        (lambda _: "", ("empty",)),
        (lambda _: {}, ("application",)),
    ],
    ids=["misspelt", "missing-file", "unreachable", "empty-document", "empty-mapping"],
)
def test_what_cannot_work_is_told_in_a_sentence_and_submits_nothing(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document, fault: Callable[..., Any], words: tuple[str, ...]
) -> None:
    slurm_site.write(fault(tiny_on_slurm()))
    before = real_slurm.jobs().keys()
    one_sentence(slurm_site.play("deploy"), *words)
    assert real_slurm.jobs().keys() <= before


def test_a_job_that_the_scheduler_refuses_is_told_in_its_words(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    slurm_site.write(tiny_on_slurm(nodes=99))
    before = real_slurm.jobs().keys()
    one_sentence(slurm_site.play("deploy"), "99")
    assert real_slurm.jobs().keys() <= before


def test_the_digits_job(slurm_site: Site, real_slurm: Rig, keras_python: str) -> None:
    example = TOP / "examples" / "digits" / "deploy.yml"
    site = {"target": {"name": "rig", "type": "slurm", "host": "slurm-login", "python": keras_python}}
    slurm_site.write(site | {"job": {"wall_time": "10m", "threads": 2}})
    short = {"arguments": ["--epochs", "2"]}
    import yaml

    application = yaml.safe_load(example.read_text())["application"] | short
    application["script"] = str(example.parent / application["script"])
    application["workload"]["units"] = 2
    slurm_site.write({"application": application} | site | {"job": {"wall_time": "10m", "threads": 2}})
    ended = slurm_site.play("deploy", timeout=300)
    assert ended.code == 0, ended.text
    (metrics,) = metrics_in(slurm_site.results)
    assert metrics["epochs"] == 2
    assert metrics["accuracy"] > 0.5
