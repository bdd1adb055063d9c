"""What a target says of a job's folder: of its name modak makes paths, commands and the job's script."""

from pathlib import Path

import pytest

from jobplans import requested
from modak_deploy.errors import TargetError
from modak_deploy.jobs import folder as records
from modak_deploy.jobs import staging
from modak_deploy.jobs.job import Job, folder_name, specification
from modak_deploy.schedulers import registry
from targets import Edited

PLAN = requested(["true"], Path("~/.modak"))
NAME = folder_name(PLAN)


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        (f"/home/me\n!touch /tmp/oops\n/.modak/runs/{NAME}", "a folder for the job that is not supported"),
        (f"/home/me\x1b[2J/.modak/runs/{NAME}", "a folder for the job that is not supported"),
        (f"/home/me\u2028/.modak/runs/{NAME}", "a folder for the job that is not supported"),
        (f"/home/../etc/.modak/runs/{NAME}", "a folder for the job that is not supported"),
        (f"relative/.modak/runs/{NAME}", "a folder for the job that is not supported"),
        ("", "a folder for the job that is not supported"),
        ("/etc", "the folder '/etc' for the job, and not"),
        (f"/home/me/.modak/runs/{NAME}-other", "for the job, and not"),
    ],
)
def test_folder_that_a_target_reports(directory: str, said: str) -> None:
    def answer(text: str) -> str:
        start = text.index("directory\n") + len("directory\n")
        return text[:start] + directory + text[text.index("\n--", start) :]

    with pytest.raises(TargetError) as caught:
        staging.look(Edited("part directory", answer=answer), PLAN)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_another_folder_than_the_workspace(tmp_path: Path) -> None:
    made = requested(["true"], tmp_path)
    transport = Edited("part directory", answer=lambda text: text.replace(str(tmp_path), "/elsewhere"))
    with pytest.raises(
        TargetError, match=r"the target reports the folder '/elsewhere/runs/probe-.*' for the job, and not"
    ):
        staging.look(transport, made)


@pytest.mark.parametrize("now", ["", "now", "-5", "1e30", "²", "9" * 5000, "1700000000\nx"])
def test_time_that_a_target_reports(now: str, tmp_path: Path) -> None:
    def answer(text: str) -> str:
        start = text.index(" now\n") + len(" now\n")
        return text[:start] + now + text[text.index("\n\n--", start) :]

    with pytest.raises(TargetError, match="the target reports a time that is not valid"):
        staging.look(Edited("part now", answer=answer), requested(["true"], tmp_path))


@pytest.mark.parametrize("number", ["-rf", "a b", "1\n2", "$(id)", ""])
def test_job_id_that_is_none(number: str) -> None:
    with pytest.raises(TargetError, match="the target reports a job id that is not valid"):
        Job(number, specification(PLAN, f"/x/runs/{NAME}"), PLAN, registry.get("process"))


@pytest.mark.parametrize("intent", ["token ² host", "token " + "9" * 5000, "token -1", "token 1e9", "token"])
def test_intent_without_a_time(intent: str) -> None:
    assert records.parse({"intent": intent}).intent is None


@pytest.mark.parametrize("name", ["exit.²", "exit." + "9" * 5000, "exit.1.2", "exit.-1"])
def test_record_of_a_task_without_a_number(name: str) -> None:
    assert records.parse({name: "code=0\n"}).exits == {}


@pytest.mark.parametrize(
    "text", ["code=²\n", "code=" + "9" * 5000, "code=70000\n", "code=0\nstate=\x1b[2Jcompleted\n", "state=failed\n"]
)
def test_damaged_exit_record(text: str) -> None:
    with pytest.raises(TargetError, match="the job's exit record") as caught:
        records.parse({"exit": text})
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_host_name_does_not_forge_fields() -> None:
    found = records.parse({"exit": "state=failed\ncode=1\nhost=n1\u2028code=0\x85state=completed\n"}).exits[None]
    assert (found.state, found.code, found.host) == ("failed", 1, None)
