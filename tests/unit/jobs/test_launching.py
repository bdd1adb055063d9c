"""Jobs with the launcher: real processes of unchanged programs on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobplans import Local, requested, source, with_launch
from modak_deploy.errors import InputError
from modak_deploy.jobs import launching, restarting
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.files import paths_of
from modak_deploy.launch.config import Expected, parse
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Launch
from modak_deploy.model.trials import RestartCandidate, RestartPlan

SEEN = """import json, os, sys
session = getattr(sys.modules.get("modak_launch.session"), "current", lambda: None)()
print(json.dumps({"launcher": session is not None, "argv": sys.argv, "path": sys.path}))
"""
Run = Callable[..., tuple[JobRequest, JobResult, str]]


@pytest.fixture
def run(jobs: Jobs, tmp_path: Path) -> Run:
    """Return the function that runs a program with the launcher and returns its JobRequest, its end and its output."""

    def carry_out(text: str, *, launch: Launch | None = None, **rest: object) -> tuple[JobRequest, JobResult, str]:
        file = tmp_path / "program.py"
        file.write_text(text)
        items: tuple[Local, ...] = (source("program.py", file),)
        made = requested([sys.executable, "program.py", "a b"], tmp_path / "space", sources=items, **rest)  # type: ignore[arg-type]
        made = with_launch(made, launch or Launch(trials="live", candidates=["pytorch-compile"]))
        present = jobs.present(made, items)
        (result,) = jobs.wait([present])
        logs = sorted(Path(result.directory).glob("output.log*"))
        return made, result, "".join(log.read_text() for log in logs)

    return carry_out


def test_an_unchanged_program_runs_with_the_launcher(run: Run) -> None:
    made, result, output = run(SEEN)
    seen = json.loads(output)
    assert result.state == "completed"
    assert seen["launcher"] and seen["argv"] == ["program.py", "a b"]
    assert seen["path"][1] == f"{result.directory}/{launching.BUNDLE}"
    config = json.loads(Path(result.directory, launching.CONFIG).read_text())
    assert config["trials"] == {
        "mode": "live", "numerics": "exact", "candidates": ["pytorch-compile"], "gain": 1.0, "share": 0.03,
    }  # fmt: skip
    assert set(launching.files(made)) <= set(paths_of(made))


@pytest.mark.parametrize("counts", [True, False])
def test_what_need_not_be_counted_is_not(counts: bool, tmp_path: Path) -> None:
    launch = Launch(counts=counts, compiled=True)
    assert parse(json.loads(launching.config(launch, requested(["python3"], tmp_path)))).counts is counts


def test_gains_that_are_expected_travel_without_a_cost(tmp_path: Path) -> None:
    launch = Launch(trials="live", candidates=["pytorch-openvino"], expected={"pytorch-openvino": 1.3})
    config = json.loads(launching.config(launch, requested(["python3"], tmp_path)))
    assert config["trials"]["expected"] == {"pytorch-openvino": {"gain": 1.3}}
    assert parse(config).trials.expected["pytorch-openvino"] == Expected(gain=1.3)


@pytest.mark.parametrize(
    ("launch", "runtime", "kept"),
    [
        (Launch(trials="live", candidates=["pytorch-openvino"]), "native", True),
        (Launch(levers=["pytorch-compile"]), "native", True),
        (Launch(levers=["pytorch-compile"]), "apptainer", True),
        (Launch(levers=["pytorch-compile"]), "podman", False),
        (Launch(trials="live", candidates=["jax-matmul-precision"]), "native", False),
        (Launch(), "native", False),
        (Launch(compiled=True), "native", True),
    ],
)
def test_jobs_of_a_workspace_share_a_cache(launch: Launch, runtime: str, kept: bool, tmp_path: Path) -> None:
    made = replace(requested(["python3"], tmp_path), runtime=runtime)
    config = json.loads(launching.config(launch, made))
    assert ("cache" in config) == kept
    if kept:
        file = tmp_path / "space" / "runs" / "name-0123" / "launch" / "config.json"
        assert Path(os.path.normpath(file.parent / config["cache"])) == tmp_path / "space" / "cache"


@pytest.mark.parametrize(("levers", "kept"), [(["pytorch-compile"], True), ([], False)])
def test_restart_trials_use_the_cache_of_the_job(levers: list[str], kept: bool, tmp_path: Path) -> None:
    launch = Launch(trials="live", levers=levers, candidates=["pytorch-openvino"])
    candidates = [RestartCandidate(name=name) for name in ("default", "other")]
    plan = RestartPlan(candidates=candidates, signal="launcher", budget=10, rule="the fastest")
    made = replace(with_launch(requested(["python3"], tmp_path), launch), restart=plan)
    folder = tmp_path / "space" / "runs" / "name-0123" / "restart"
    texts = {path: json.loads(text) for path, text in restarting.files(made).items() if path.endswith(".json")}
    assert sorted(texts) == [f"restart/{name}.json" for name in ("0", "0.trial", "1", "1.trial")]
    assert ("cache" in texts["restart/0.trial.json"]) == kept
    for text in texts.values():
        if "cache" in text:
            assert Path(os.path.normpath(folder / text["cache"])) == tmp_path / "space" / "cache"


def test_restart_trials_have_the_options_of_the_chosen_candidates_sessions(tmp_path: Path) -> None:
    launch = Launch(levers=["onnxruntime-one-thread"], session={"enable_mem_pattern": False})
    plan = RestartPlan(candidates=[RestartCandidate(name="default")], signal="launcher", budget=10, rule="the fastest")
    made = replace(with_launch(requested(["python3"], tmp_path), launch), restart=plan)
    files = restarting.files(made)
    run, trial = (json.loads(files[f"restart/0.{end}"]) for end in ("json", "trial.json"))
    assert [trial[key] for key in ("levers", "settings")] == [run[key] for key in ("levers", "settings")]
    assert trial["settings"]


def test_cache_is_beside_the_jobs(run: Run, tmp_path: Path) -> None:
    text = "from modak_launch import session; print(session.current().config.cache)"
    _, result, output = run(text, launch=Launch(trials="live", candidates=["pytorch-compile"]))
    assert result.state == "completed"
    assert os.path.normpath(output.strip()) == str(tmp_path / "space" / "cache")
    assert not (tmp_path / "space" / "cache").exists()  # before there is something to be kept


def test_an_exit_code_is_the_programs_own(run: Run) -> None:
    _, result, _ = run("import sys; sys.exit(3)")
    assert (result.state, result.exit_code) == ("failed", 3)


def test_the_programs_own_path_and_sitecustomize_stay(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.OWN = True\n")
    text = f"{SEEN}assert OWN"
    _, result, output = run(text, environment={"PYTHONPATH": str(own)})
    assert result.state == "completed", output
    seen = json.loads(output)
    assert seen["launcher"] and str(own) in seen["path"]


@pytest.mark.parametrize("damage", ["config.json", "modak_launch.zip"])
def test_a_launcher_that_cannot_start_leaves_the_program_alone(run: Run, damage: str) -> None:
    break_it = f"echo broken >../launch/{damage}"
    _, result, output = run(SEEN, job={"pre_execution": break_it})
    assert result.state == "completed"
    assert '"launcher": false' in output


def test_a_program_is_left_to_itself_without_a_launcher(tmp_path: Path) -> None:
    made = requested(["python3", "x.py"], tmp_path)
    assert launching.files(made) == {} and launching.launched(made, ["python3", "x.py"], "/d") == ["python3", "x.py"]


def test_a_folder_that_pythonpath_cannot_name(tmp_path: Path) -> None:
    made = with_launch(requested(["python3"], tmp_path), Launch(trials="live"))
    assert "echo" in launching.launched(made, ["python3"], "/a:b")[2]
    with pytest.raises(InputError, match="holds a colon"):
        on = with_launch(made, Launch(levers=["pytorch-compile"]))
        launching.launched(on, ["python3"], "/a:b")


def test_one_task_of_an_array_tries(tmp_path: Path) -> None:
    made = with_launch(requested(["python3"], tmp_path, job={"array": "1-3"}), Launch(trials="live"))
    for path, content in launching.files(made).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    text = "from modak_launch import session; print(session.current().tries, session.current().tries)"
    line = launching.launched(made, [sys.executable, "-c", text], str(tmp_path))
    tasks = [subprocess.run(line, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    assert tasks == ["True True\n", "False False\n", "False False\n"]


def test_what_an_earlier_attempt_tried_last_is_not_tried_again(run: Run) -> None:
    text = """import sys
from pathlib import Path
from modak_launch import session
now = session.current()
print(now._crashed, flush=True)
if not now._crashed:
    now.record.add("trying", of="x", lever="pytorch-compile", variant="x")
    import os
    os._exit(9)
"""
    _, first, output = run(text)
    assert (first.exit_code, output) == (9, "[]\n")
    _, second, output = run(text)
    assert (second.state, second.attempt, output) == ("completed", 2, "['pytorch-compile']\n")
    assert not list(Path(second.directory, "launch", "record").glob("*"))
