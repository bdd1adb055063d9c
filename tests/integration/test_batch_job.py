"""The modules batch_job and batch_job_info as a user's tasks, on this machine and on the real Slurm."""

import json
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from jobplans import plan, source
from modak_deploy.jobs.files import LARGE
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Polling
from modak_deploy.performance.store import Store
from outages import drop_sessions, without_login
from plays import User
from rig import Rig

TRUE = {"name": "x", "executable": "true"}
HASTY = Polling(first=0.3, maximum=1.0)


@pytest.fixture
def here(tmp_path: Path, environment: dict[str, str]) -> User:
    return User(tmp_path, environment, ["-i", "localhost,", "-c", "local"], "localhost")


@pytest.fixture
def there(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> User:
    return User(tmp_path, environment, ["-i", str(real_slurm.inventory)], "slurm-login")


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Plan]:
    name = request.node.name.removeprefix("test_").replace("_", "-").split("[")[0][:40]

    def make(line: str, *, slurm: bool = False, polling: Polling = HASTY, **rest: Any) -> Plan:
        workspace = Path("~/.modak") if slurm else tmp_path / "space"
        scheduler = "slurm" if slurm else "process"
        # The rig outlives the tests: what they run is never what an earlier run has left there.
        line = f"{line} # {tmp_path}"
        return plan(["sh", "-c", line], workspace, name=name, scheduler=scheduler, polling=polling, **rest)

    return make


def batch_job(plan: Plan, **options: Any) -> dict[str, Any]:
    return {"modak.deploy.batch_job": {"plan": json.loads(plan.to_json()), **options}}


def info(**options: Any) -> dict[str, Any]:
    return {"modak.deploy.batch_job_info": options}


def sentence_in(text: str) -> str:
    """Return what the failed task said, having checked that it is one line and no traceback."""
    assert "Traceback" not in text, text
    lines = [line for line in text.splitlines() if line.startswith("[ERROR]: Task failed: ")]
    assert len(lines) == 1, text
    return lines[0]


def test_not_waiting_and_asking_later(here: User, shell: Callable[..., Plan]) -> None:
    deployed = shell(f"while [ ! -e {here.folder}/go ]; do sleep 0.1; done")
    code, text = here.play([info(plan=json.loads(deployed.to_json())), batch_job(deployed, wait=False)])
    assert code == 0, text
    before, submitted = here.returned()
    assert before["job"] is None
    assert (submitted["changed"], submitted["job"]["state"]) == (True, "running")
    (here.folder / "go").touch()
    time.sleep(0.5)
    code, text = here.play([info(directory=submitted["job"]["directory"]), batch_job(deployed)])
    assert code == 0, text
    asked, waited = here.returned()
    assert asked["job"]["id"] == waited["job"]["id"] == submitted["job"]["id"]
    assert asked["job"]["state"] == waited["job"]["state"] == "completed"
    assert waited["job"]["results"] == str(here.folder / "results" / deployed.name)


def test_what_a_job_took_is_recorded_once(here: User, shell: Callable[..., Plan]) -> None:
    here.environment = {**here.environment, "XDG_DATA_HOME": str(here.folder / "data")}
    nameless = shell(f"echo run >>{here.folder}/trace")
    code, text = here.play([batch_job(nameless, record=True)])
    assert code != 0
    assert "application.workload.model is missing, by which measurements are found" in sentence_in(text)
    code, text = here.play([batch_job(shell("true", workload={"model": "probe"}), record=True, wait=False)])
    assert "a job that is not waited for has no end to record" in sentence_in(text)
    assert not (here.folder / "space").exists()
    named = shell(f"echo run >>{here.folder}/trace", workload={"model": "probe"})
    code, text = here.play([batch_job(named, record=True), batch_job(named, record=True), batch_job(named)])
    assert code == 0, text
    told = [(returned["changed"], returned.get("recorded")) for returned in here.returned()]
    assert told == [(True, 1), (False, 0), (False, None)]
    assert (here.folder / "trace").read_text() == "run\n"
    (kept,) = Store(f"sqlite:///{here.folder}/data/modak/measurements.sqlite").of_workload("probe")
    assert kept.provenance.source.startswith("job ")


def test_output_is_shown_while_it_is_written(here: User, shell: Callable[..., Plan]) -> None:
    code, text = here.play([batch_job(shell("echo one line; sleep 0.5"), follow=True)])
    assert code == 0, text
    assert " | one line\n" in text


def test_check_mode_shows_the_script_and_changes_nothing(here: User, shell: Callable[..., Plan]) -> None:
    code, text = here.play([batch_job(shell("echo in the script"))], "--check", "--diff")
    assert code == 0, text
    assert "+    exec sh -c 'echo in the script" in text
    assert here.returned()[0]["changed"]
    assert not (here.folder / "space").exists()
    assert not (here.folder / "results").exists()


def test_check_mode_of_what_is_there(here: User, shell: Callable[..., Plan]) -> None:
    deployed = shell("true")
    assert here.play([batch_job(deployed)])[0] == 0
    states = ("present", "restarted", "absent")
    code, text = here.play([batch_job(deployed, state=state) for state in states], "--check")
    assert code == 0, text
    assert [returned["changed"] for returned in here.returned()] == [False, True, True]
    code, text = here.play([batch_job(deployed, state="absent"), batch_job(deployed, state="absent")])
    assert [returned["changed"] for returned in here.returned()] == [True, False]


def test_restarted_runs_again_but_not_with_a_fault(here: User, shell: Callable[..., Plan]) -> None:
    deployed = shell(f"echo run >>{here.folder}/trace")
    faulty = here.folder / "template"
    faulty.write_text("{{ nonsense }}")
    assert here.play([batch_job(deployed), batch_job(deployed, state="restarted")])[0] == 0
    assert (here.folder / "trace").read_text() == "run\nrun\n"
    code, text = here.play([batch_job(deployed, state="restarted", template=str(faulty))])
    assert code != 0
    assert "the job template cannot be filled" in sentence_in(text)
    code, text = here.play([info(plan=json.loads(deployed.to_json()))])
    assert here.returned()[0]["job"]["state"] == "completed", "the job that was there has been left alone"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (lambda deployed: {"modak.deploy.batch_job": {"plan": {"nmae": "x"}}}, "the plan: the key"),
        (lambda deployed: batch_job(deployed, template="/nowhere.j2"), "template /nowhere.j2 cannot be read"),
        (lambda deployed: batch_job(deployed, timeout=1), "after 1 s of waiting and goes on: run again to follow it"),
        (lambda deployed: batch_job(deployed, timeout=-1), "timeout: -1 is not a number of seconds; write 0 or more"),
        (lambda deployed: info(), "give either 'plan' or 'directory'"),
        (lambda deployed: info(directory="/nowhere"), "/nowhere is not a job's folder"),
        (lambda deployed: {**batch_job(deployed), "become": True}, "become is not supported"),
        (
            lambda deployed: {
                "modak.deploy.deployment": {"application": TRUE, "other_targets": [{"name": "localhost"}]}
            },
            "two targets have the name 'localhost': give each its own",
        ),
        (
            lambda deployed: {"modak.deploy.optimise": {"plan": {}}},
            "with 'plan' the option 'target' is required and 'application' is not supported",
        ),
        (
            lambda deployed: {"modak.deploy.tosca_inputs": {}, "vars": {"tosca_wait": "yes"}},
            "tosca_wait: must be of the type bool, not 'yes'",
        ),
    ],
)
def test_faults_are_one_sentence(here: User, shell: Callable[..., Plan], task: Any, words: str) -> None:
    deployed = shell("sleep 20")
    code, text = here.play([task(deployed)])
    assert code != 0
    assert words in sentence_in(text)
    here.play([batch_job(deployed, state="absent")])


def test_target_that_cannot_be_reached(tmp_path: Path, environment: dict[str, str], shell: Callable[..., Plan]) -> None:
    user = User(tmp_path, environment, ["-i", "nowhere.invalid,", "-c", "ssh"], "nowhere.invalid")
    code, text = user.play([batch_job(shell("true"))])
    assert code == 4
    assert "Traceback" not in text
    assert "UNREACHABLE" in text
    assert "nowhere.invalid cannot be reached: Could not resolve hostname" in text


def test_interrupted_play_leaves_the_job(there: User, shell: Callable[..., Plan], real_slurm: Rig) -> None:
    deployed = shell("sleep 5", slurm=True)
    process = there.start([batch_job(deployed)])
    while not (numbers := [n for n, (name, _) in real_slurm.jobs().items() if name == deployed.name]):
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(2)
    text, _ = process.communicate(timeout=30)
    assert "Traceback" not in text
    code, text = there.play([batch_job(deployed)])
    assert code == 0, text
    assert there.returned()[0]["job"]["id"] == max(numbers, key=int)


def test_connection_dropped_while_the_play_waits(there: User, shell: Callable[..., Plan], real_slurm: Rig) -> None:
    deployed = shell("sleep 8", slurm=True)
    process = there.start([batch_job(deployed)])
    while not any(name == deployed.name for name, _ in real_slurm.jobs().values()):
        assert process.poll() is None
        time.sleep(0.2)
    drop_sessions(real_slurm)
    time.sleep(1)
    with without_login(real_slurm):
        time.sleep(2)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text
    assert "no word of the job, asking again for up to 900 s: slurm-login cannot be reached" in text
    assert "the target answers again" in text
    assert there.returned()[0]["job"]["state"] == "completed"


def test_few_ssh_sessions(there: User, shell: Callable[..., Plan], tmp_path: Path) -> None:
    """All that a job of five seconds costs, with the site's own pauses, counted by a wrapper around ssh."""
    wrapper = tmp_path / "ssh"
    wrapper.write_text(f'#!/bin/sh\necho x >>{tmp_path}/sessions\nexec /usr/bin/env ssh "$@"\n')
    wrapper.chmod(0o700)
    there.environment = {**there.environment, "ANSIBLE_SSH_EXECUTABLE": str(wrapper)}
    deployed = shell("sleep 5; echo 1 >out", slurm=True, polling=Polling(), outputs=["out"])
    code, text = there.play([batch_job(deployed)])
    assert code == 0, text
    assert len((tmp_path / "sessions").read_text().splitlines()) < 12
    assert (there.folder / "results" / deployed.name / "out").exists()


ODD_NAMES = ["line\nfeed", "sep\u2028arator", "car\rriage", "back\\slash", "-rf", "$(touch oops)", "ü"]


@pytest.mark.parametrize("slurm", [False, True])
def test_a_job_whose_names_and_output_attack(
    request: pytest.FixtureRequest, shell: Callable[..., Plan], slurm: bool
) -> None:
    """Names of files that forge lines of a listing, text that forges lines on the terminal, through Ansible itself."""
    user: User = request.getfixturevalue("there" if slurm else "here")
    names = " ".join(quote(name) for name in ODD_NAMES)
    line = (
        f'mkdir -p out/empty; cd out; for name in {names}; do printf x >./"$name"; done; ln -s /etc/passwd gone; '
        r"""printf x >"$(printf 'bytes\377')"; printf 'a\033[2Jb\rPLAY RECAP ***\342\200\250ok: [x]\302\2331m\n'"""
    )
    deployed = shell(line, slurm=slurm, outputs=["out"])
    code, text = user.play([batch_job(deployed, follow=True)])
    assert code == 0, text
    (returned,) = user.returned()
    assert returned["job"]["not_fetched"] == ["out/gone: it is a symbolic link to '/etc/passwd', outside the results"]
    assert "not fetched: out/gone" in text.replace("\n", " ")
    results = user.folder / "results" / deployed.name
    assert {path.name for path in (results / "out").iterdir()} == {*ODD_NAMES, "bytes\udcff", "empty"}
    assert not list(user.folder.rglob("oops"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]", text)
    assert [line.split(" ")[0] for line in text.splitlines()].count("PLAY") == 2  # the play, and one recap
    code, text = user.play([batch_job(deployed)])
    assert user.returned()[0]["changed"] is False


def test_a_target_whose_home_is_a_command_for_sftp(
    there: User, shell: Callable[..., Plan], real_slurm: Rig, tmp_path: Path
) -> None:
    """A start-up file there sets what becomes part of paths; sftp runs lines of its batch that begin with '!'."""
    large = tmp_path / "large"
    large.write_bytes(b"x" * LARGE)
    victim = tmp_path / "victim"
    profile = real_slurm.home / ".bashrc"
    before = profile.read_text() if profile.exists() else None
    deployed = shell("true", slurm=True, sources=(source("large", large),), inputs=["large"])
    profile.write_text(f"export HOME=$'{real_slurm.home}/x\\n!touch {victim}\\n'\n")
    try:
        code, text = there.play([batch_job(deployed, search_paths=[str(tmp_path)])])
    finally:
        profile.unlink()
        if before is not None:
            profile.write_text(before)
    assert code != 0
    assert "the target reports a folder for the job that is not supported" in sentence_in(text)
    assert not victim.exists()


@pytest.mark.parametrize("where", ["here", "there"])
def test_failed_job_is_run_again(where: str, request: pytest.FixtureRequest, shell: Callable[..., Plan]) -> None:
    user: User = request.getfixturevalue(where)
    slurm = where == "there"
    folder = request.getfixturevalue("real_slurm").home if slurm else user.folder
    cause = folder / f"cause-{secrets.token_hex(4)}"
    lines = f"echo looking; ls {cause}"
    deployed = shell("echo x >out", slurm=slurm, job={"pre_execution": lines, "wall_time": 300}, outputs=["out"])
    code, text = user.play([batch_job(deployed)])
    assert code != 0
    sentence = sentence_in(text)
    assert re.search(r"failed: pre_execution ended with exit code [12], and the application was not started", sentence)
    assert "The last lines of output.log:\n    | looking\n    | ls: " in text
    assert str(cause) in text.partition("The last lines of")[2]
    code, text = user.play([batch_job(deployed, retry=False)])
    assert code != 0
    assert "it is run again" not in text
    code, text = user.play([batch_job(deployed)], "--check", "--diff")
    assert code == 0, text
    (checked,) = user.returned()
    assert (checked["changed"], checked["previous"]["state"], checked["job"]["state"]) == (True, "failed", "failed")
    cause.touch()
    code, text = user.play([batch_job(deployed), batch_job(deployed)])
    assert code == 0, text
    assert text.count("it is run again as attempt 2, and what it left is in") == 1
    first, second = user.returned()
    assert (first["changed"], first["job"]["state"], first["job"]["attempt"]) == (True, "completed", 2)
    assert (first["previous"]["state"], first["previous"]["attempt"]) == ("failed", 1)
    assert (second["changed"], second["job"]["id"], "previous" in second) == (False, first["job"]["id"], False)
    results = user.folder / "results" / deployed.name
    assert (results / "out").read_text() == "x\n"
    assert json.loads((results / "attempts" / "1" / "job.json").read_text())["id"] == first["previous"]["id"]
    assert "looking" in (results / "attempts" / "1" / "output.log").read_text()
    code, text = user.play([batch_job(deployed, state="absent")])
    assert code == 0, text
    cause.unlink()


@pytest.mark.parametrize("where", ["here", "there"])
def test_outputs_come_back_from_scratch_past_a_trap_of_the_users(
    where: str, request: pytest.FixtureRequest, shell: Callable[..., Plan]
) -> None:
    user: User = request.getfixturevalue(where)
    job = {"scratch": "/tmp", "pre_execution": "trap 'echo cleaned' EXIT; cd() { false; }", "wall_time": 300}
    deployed = shell("echo x >out", slurm=where == "there", job=job, outputs=["out"])
    code, text = user.play([batch_job(deployed)])
    assert code == 0, text
    results = user.folder / "results" / deployed.name
    assert (results / "out").read_text() == "x\n"
    assert (results / "output.log").read_text() == "cleaned\n"
    code, text = user.play([batch_job(deployed, state="absent")])
    assert code == 0, text
