"""A job that runs on a copy of its folder on the node's own disk, and brings its outputs back however it ends."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_parts import TAG, Part, shells
from scriptruns import record, run, text_of, wait_for

Maker = Callable[..., tuple[Path, Part]]
OUTPUTS: dict[str, Any] = {"outputs": ["out", "model"], "metrics": "m.json"}


@pytest.fixture(params=shells(), ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a scratch folder, with a name that must be quoted."""
    place = tmp_path / "a node's $HOME"
    place.mkdir()
    return place


@pytest.fixture
def on_scratch(job_folder: Maker, place: Path) -> Callable[..., Path]:
    """Return a maker of jobs that run in the scratch folder; yields their folders."""

    def maker(program: str, scheduler: str = "process", **job: Any) -> Path:
        options = {"scratch": str(place), **job}
        folder, _ = job_folder(scheduler, "sh", "-c", program, job=options, application=OUTPUTS)
        (folder / "work" / "input").write_text("given\n")
        (folder / "work" / "model").mkdir()
        (folder / "work" / "model" / "old").write_text("old\n")
        return folder

    return maker


def brought(folder: Path) -> dict[str, str]:
    """Return what lies in the job's own working directory, the input excepted."""
    work = folder / "work"
    files = {str(path.relative_to(work)): path.read_text() for path in work.rglob("*") if path.is_file()}
    assert files.pop("input") == "given\n"
    assert not list((folder / "state").glob("back*")), "temporary files are left behind"
    return files


WRITES = "pwd >out; cat input >>out; echo new >'model/a b'; echo '{}' >m.json; echo no >undeclared"


def test_outputs_come_back_from_the_copy(on_scratch: Callable[..., Path], place: Path, shell: list[str]) -> None:
    folder = on_scratch(WRITES)
    assert run(folder, shell) == 0
    files = brought(folder)
    assert files.pop("out").startswith(f"{place}/modak.")
    assert files == {"model/old": "old\n", "model/a b": "new\n", "m.json": "{}\n"}
    assert record(folder).state == "completed"
    assert list(place.iterdir()) == [], "nothing is left on the node"


def test_links_and_empty_folders_come_back_too(on_scratch: Callable[..., Path], place: Path, shell: list[str]) -> None:
    steps = "cd model; mkdir -p empty/inner; ln -s old latest; ln -s \"$PWD/old\" here; ln -s / away; ln -s 'a\nb' none"
    folder = on_scratch(f"{steps}; ln -s empty to; ln -sfn again changed; rm -f was; echo file >was")
    model = folder / "work" / "model"
    (model / "changed").symlink_to("before")
    (model / "was").symlink_to("old")
    assert run(folder, shell) == 0
    assert (model / "empty" / "inner").is_dir() and not list((model / "empty" / "inner").iterdir())
    links = {path.name: str(path.readlink()) for path in model.iterdir() if path.is_symlink()}
    # One that led into the scratch folder, which is gone, leads to the same file in the job's folder.
    assert links == {
        "latest": "old", "here": str(model / "old"), "away": "/", "none": "a\nb", "to": "empty", "changed": "again"
    }  # fmt: skip
    assert (model / "was").read_text() == "file\n" and (model / "old").read_text() == "old\n"
    assert brought(folder)["model/here"] == "old\n"
    assert list(place.iterdir()) == [], "nothing is left on the node"


def test_they_come_back_from_a_job_that_fails(on_scratch: Callable[..., Path], place: Path, shell: list[str]) -> None:
    folder = on_scratch(f"{WRITES}; exit 3")
    assert run(folder, shell) == 3
    assert brought(folder)["m.json"] == "{}\n"
    assert record(folder).code == 3
    assert list(place.iterdir()) == []


def test_steps_before_and_after_run_on_the_copy_too(
    on_scratch: Callable[..., Path], place: Path, shell: list[str]
) -> None:
    steps = {"pre_execution": "echo before >made; cd /", "post_execution": "cat made >>out; echo after >>out"}
    folder = on_scratch("cat made >out", **steps)
    assert run(folder, shell) == 0
    assert brought(folder)["out"] == "before\nbefore\nafter\n"


def test_a_step_before_that_fails_leaves_nothing_on_the_node(
    on_scratch: Callable[..., Path], place: Path, shell: list[str]
) -> None:
    folder = on_scratch("true", pre_execution="echo half >out; false")
    assert run(folder, shell) == 1
    assert brought(folder)["out"] == "half\n"
    assert record(folder).start is None
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("deaf", [False, True], ids=["polite", "deaf"])
def test_they_come_back_from_a_job_that_is_ended(on_scratch: Callable[..., Path], shell: list[str], deaf: bool) -> None:
    trap = "trap '' TERM" if deaf else "trap 'echo last >>out; exit 5' TERM"
    folder = on_scratch(f"{trap}; echo first >out; echo ready; while :; do sleep 0.1; done", "slurm")
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    os.killpg(process.pid, signal.SIGTERM)
    wait_for((folder / "work" / "out").exists)
    if deaf:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert (folder / "work" / "out").read_text() == ("first\n" if deaf else "first\nlast\n")
    # bash's POSIX mode forgets the program's own code where a second signal comes with its end.
    codes = {143} if deaf else {5, 143} if "--posix" in shell else {5}
    assert record(folder).state == "terminated"
    assert record(folder).code in codes


def test_they_come_back_when_the_wall_time_is_over(
    on_scratch: Callable[..., Path], place: Path, shell: list[str]
) -> None:
    folder = on_scratch(f"{WRITES}; sleep 600", wall_time=1)
    assert run(folder, shell) != 0
    assert brought(folder)["m.json"] == "{}\n"
    assert record(folder).state == "timeout"
    assert list(place.iterdir()) == []


def test_tasks_of_an_array_do_not_undo_each_others_results(
    on_scratch: Callable[..., Path], place: Path, shell: list[str]
) -> None:
    # The second task begins before the first one ends, on a copy of an older result of the first.
    program = 'echo "$MODAK_TASK" >"model/$MODAK_TASK"; until [ -e "$GO" ]; do sleep 0.05; done'
    folder = on_scratch(program, "slurm", array="1-2")
    (folder / "work" / "model" / "1").write_text("older\n")
    tasks, go = [], place.parent / "go"
    for task in ("1", "2"):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": task, "SLURM_JOB_ID": task, "GO": str(go)}
        tasks.append(subprocess.Popen([*shell, str(folder / "job.sh"), TAG], env=environment))
        wait_for(lambda: any(text_of(path) == f"{task}\n" for path in place.glob(f"*/model/{task}")))  # noqa: B023
    go.touch()
    assert [task.wait(30) for task in tasks] == [0, 0]
    assert brought(folder) == {"model/old": "old\n", "model/1": "1\n", "model/2": "2\n"}


@pytest.mark.parametrize(
    ("scratch", "sentence"),
    [
        ("$NO_SUCH_VARIABLE", "modak: job.scratch names the variable NO_SUCH_VARIABLE, which is not set on"),
        ("/no/such/folder", "modak: the scratch folder /no/such/folder is not there on"),
        ("$RELATIVE", "modak: the scratch folder . is no absolute path"),
    ],
)
def test_a_folder_that_is_not_there_fails_the_job(
    on_scratch: Callable[..., Path], shell: list[str], scratch: str, sentence: str
) -> None:
    folder = on_scratch("echo never", scratch=scratch)
    assert run(folder, shell, {"RELATIVE": "."}) == 1
    assert (folder / "output.log").read_text().startswith(sentence)
    assert record(folder).state == "failed"


def test_a_variable_names_the_folder(on_scratch: Callable[..., Path], place: Path, shell: list[str]) -> None:
    folder = on_scratch("pwd >out", scratch="$PLACE")
    assert run(folder, shell, {"PLACE": str(place)}) == 0
    assert brought(folder)["out"].startswith(f"{place}/modak.")


def test_what_cannot_be_brought_back_fails_the_job_and_stays(
    on_scratch: Callable[..., Path], place: Path, shell: list[str]
) -> None:
    folder = on_scratch("rmdir model 2>/dev/null; rm -r model; echo file >model; echo x >out")
    assert run(folder, shell) == 1
    assert "modak: ./model cannot be brought back from the scratch folder" in (folder / "output.log").read_text()
    assert (folder / "work" / "out").read_text() == "x\n"
    assert record(folder).state == "failed"
    assert [path.read_text() for path in place.glob("*/model")] == ["file\n"]
