"""What follows a search: the time model keeps up with what it has recorded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.model.deployment import Deployment
from modak_deploy.performance import refitting
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
