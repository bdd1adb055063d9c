"""``modak deploy`` and its like on a real Slurm over ssh, alone and in turns with the playbooks."""

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from endings import assert_unchanged, jobs_of
from rig import Rig
from sites import Ended, Running, Site

Document = Callable[..., dict[str, Any]]


def words(rig: Rig, command: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "modak_deploy", command, *arguments, "--ssh-config", str(rig.ssh_config)]


def modak(site: Site, rig: Rig, command: str, *arguments: str, timeout: float = 120) -> Ended:
    """Run a command to its end."""
    with site.started(words(rig, command, *arguments)) as running:
        return running.end(timeout)


def value(ended: Ended) -> Any:
    """Return what a command printed as JSON; progress lines come before it."""
    text = ended.text
    start = min(at for at in (text.find("\n{\n"), text.find("\n[\n"), 0 if text[:1] in "{[" else -1) if at >= 0)
    return json.loads(text[start:])


def folders(rig: Rig, document: dict[str, Any]) -> list[Path]:
    return list(rig.home.glob(f".modak/runs/{document['application']['name']}-*"))


def counted(rig: Rig, document: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """Return a document whose job writes a line to a file outside its folder, and the file; Slurm forgets old jobs."""
    name = f"{document['application']['name']}.runs"
    job = {**document["job"], "pre_execution": f'echo run >>"$HOME/{name}"'}
    return {**document, "job": job}, rig.home / name


def test_what_the_playbook_began_the_command_goes_on_with(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document, runs = counted(real_slurm, tiny_on_slurm("--numbers", "21"))
    name = document["application"]["name"]
    slurm_site.write(document)
    played = slurm_site.play("deploy")
    assert played.code == 0, played.text
    before = {path.name: path.read_bytes() for path in (slurm_site.results / name).iterdir()}
    again = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--json")
    assert again.code == 0, again.text
    assert (value(again)["changed"], value(again)["submitted"]) == (False, False), again.text
    assert {path.name: path.read_bytes() for path in (slurm_site.results / name).iterdir()} == before
    seen = value(modak(slurm_site, real_slurm, "status", "--json"))
    assert [(row["name"], row["state"]) for row in seen] == [(name, "completed")], seen
    removed = modak(slurm_site, real_slurm, "undeploy", name, "--json")
    assert value(removed)["changed"] is True, removed.text
    assert not folders(real_slurm, document)
    assert_unchanged(slurm_site.play("undeploy"))
    assert runs.read_text() == "run\n"


def test_what_the_command_began_the_playbook_goes_on_with(
    slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document
) -> None:
    document, runs = counted(real_slurm, tiny_on_slurm("--numbers", "22", "--seconds", "6"))
    name = document["application"]["name"]
    slurm_site.write(document)
    checked = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--check", "--diff")
    assert checked.code == 0, checked.text
    assert "#SBATCH" in checked.text
    assert not jobs_of(real_slurm, document)
    begun = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--no-wait")
    assert begun.code == 0, begun.text
    logs = modak(slurm_site, real_slurm, "logs", "-f", name)
    assert logs.code == 0, logs.text
    assert "started on" in logs.text
    followed = slurm_site.play("deploy")
    assert followed.code == 0, followed.text
    assert_unchanged(slurm_site.play("deploy"))
    again = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--json")
    assert value(again)["changed"] is False, again.text
    undeployed = slurm_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    nothing = modak(slurm_site, real_slurm, "undeploy", "deploy.yml", "--json")
    assert value(nothing)["changed"] is False, nothing.text
    assert runs.read_text() == "run\n"


def test_ctrl_c_leaves_the_job_and_cancel_ends_it(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm("--seconds", "300")
    name = document["application"]["name"]
    slurm_site.write(document)
    with slurm_site.started(words(real_slurm, "deploy", "deploy.yml")) as running:
        (job,) = running.wait_for(lambda: jobs_of(real_slurm, document, "RUNNING"))
        running.process.send_signal(signal.SIGINT)
        ended = running.end(30)
    assert ended.code == 130, ended.text
    assert f"job {job} goes on" in ended.text
    assert "Traceback" not in ended.text
    assert jobs_of(real_slurm, document, "RUNNING") == [job]
    late = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--timeout", "2")
    assert late.code == 5, late.text
    cancelled = modak(slurm_site, real_slurm, "cancel", name, "--json")
    assert value(cancelled)["cancelled"] == [job], cancelled.text
    assert real_slurm.ended(job)[1] == "CANCELLED"
    assert modak(slurm_site, real_slurm, "results", name).code == 5
    assert modak(slurm_site, real_slurm, "undeploy", name).code == 0


def test_killed_at_odd_moments_the_job_runs_once(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document, runs = counted(real_slurm, tiny_on_slurm("--seconds", "4", "--numbers", "23"))
    slurm_site.write(document)
    moments = random.Random(17)
    for kill in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        with slurm_site.started(words(real_slurm, "deploy", "deploy.yml")) as running:
            stop(running, kill, moments.uniform(0.3, 3.5))
    ended = modak(slurm_site, real_slurm, "deploy", "deploy.yml", "--json")
    assert ended.code == 0, ended.text
    assert value(ended)["job"]["state"] == "completed"
    assert runs.read_text() == "run\n"
    assert modak(slurm_site, real_slurm, "undeploy", "deploy.yml").code == 0


def stop(running: Running, number: signal.Signals, seconds: float) -> None:
    """Send a signal after some seconds; the command ends by it, or has ended before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and running.process.poll() is None:
        time.sleep(0.02)
    running.process.send_signal(number)
    ended = running.end(60)
    assert "Traceback" not in ended.text, ended.text


def test_a_target_that_cannot_be_reached(slurm_site: Site, real_slurm: Rig, tiny_on_slurm: Document) -> None:
    document = tiny_on_slurm()
    target = {**document["target"], "host": "127.0.0.1", "port": 9, "user": "nobody"}
    slurm_site.write({**document, "target": target})
    for command in ("deploy", "undeploy", "logs", "cancel", "results"):
        ended = modak(slurm_site, real_slurm, command, "deploy.yml")
        assert ended.code == 4, ended.text
        assert "127.0.0.1" in ended.text
        assert "Traceback" not in ended.text
