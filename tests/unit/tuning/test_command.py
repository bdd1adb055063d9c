"""What follows a search: the time model keeps up with what it has recorded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.model.deployment import Deployment
from modak_deploy.performance import refitting
from modak_deploy.schedulers.base import QueueState
from modak_deploy.tuning import command
from modak_deploy.tuning.search import Options, WouldSubmit


@pytest.mark.parametrize(
    ("recorded", "catalogue", "dry", "fitted"),
    [(2, [], False, True), (0, [], False, False), (2, ["mine"], False, True), (2, [], True, False)],
    ids=["recorded", "nothing new", "a catalogue of one's own", "dry"],
)
def test_the_time_model_keeps_up_with_a_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: int, catalogue: list[str], dry: bool, fitted: bool
) -> None:
    class Search:
        def __init__(self, *arguments: Any, **options: Any) -> None: ...

        def run(self) -> Any:
            if dry:
                raise WouldSubmit
            return SimpleNamespace(recorded=recorded)

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("plan_deployment", "with_image", "catalogue_for", "Jobs"):
        monkeypatch.setattr(command, name, lambda *arguments, **options: SimpleNamespace(inputs="0" * 64))
    monkeypatch.setattr(command, "Search", Search)
    notices: list[Any] = []
    monkeypatch.setattr(refitting, "keep_current", notices.append)
    deployment = Deployment.model_validate(
        {"application": {"name": "solver", "executable": "true"}, "request": {"catalogue": catalogue}}
    )
    transport: Any = SimpleNamespace()
    _, outcome = command.tune(deployment, transport, search=[], results=tmp_path, say=print, options=Options(), dry=dry)
    assert (outcome is None) == dry
    assert notices == ([print] if fitted else [])


def test_what_happens_is_told_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job may wait in the queue for hours, and the reader of a result may end before it."""

    def tune(*arguments: Any, say: Any, reporter: Any, **options: Any) -> Any:
        say("round 1 of at most 8")
        reporter.state(SimpleNamespace(id="4711"), QueueState(state="queued", reason="Priority"))
        return SimpleNamespace(name="solver", target=SimpleNamespace(name="here")), None

    monkeypatch.setattr(command, "tune", tune)
    document = tmp_path / "solver.yml"
    document.write_text("application: {name: solver, executable: 'true'}\n")
    command.write_tuning([document], search=[], config=None, results=tmp_path, options=Options())
    said = capsys.readouterr()
    assert said.out == ""
    assert "round 1 of at most 8\n" in said.err and "job 4711: queued (Priority)\n" in said.err
