"""Every group of entry points: a distribution that cannot be used is named, with what is wrong in it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import plugins
from modak_deploy.catalogue.effects import Effect
from modak_deploy.containers.base import Runtime
from modak_deploy.engines.base import Engine
from modak_deploy.errors import InputError
from modak_deploy.extensions import ENGINES, LEVER_EFFECTS, PROVIDERS, RUNTIMES, SCHEDULERS, TARGETS, Registry
from modak_deploy.model.kinds import TargetKind
from modak_deploy.providers.base import Provider
from modak_deploy.schedulers.base import Scheduler

GROUPS: list[tuple[Registry, type]] = [
    (SCHEDULERS, Scheduler),
    (TARGETS, TargetKind),
    (RUNTIMES, Runtime),
    (LEVER_EFFECTS, Effect),
    (ENGINES, Engine),
    (PROVIDERS, Provider),
]
MODULE = "faulty_extension"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def faulty(folder: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry, body: str) -> str:
    """Install a distribution with this module; return what is said of it."""
    (folder / f"{MODULE}.py").write_text(body)
    plugins.register(folder, "modak-faulty", {registry.group: {"faulty": f"{MODULE}:Faulty"}})
    plugins.forget(monkeypatch)
    monkeypatch.syspath_prepend(folder)
    base = dict(GROUPS)[registry]
    with pytest.raises(InputError) as raised:
        registry.make("faulty", base)
    text = str(raised.value)
    start = f"the distribution modak-faulty cannot provide the {registry.noun} 'faulty': {MODULE}:Faulty: "
    assert text.startswith(start) and text.endswith("; update or uninstall it")
    return text.removeprefix(start)


@pytest.mark.parametrize(("registry", "base"), GROUPS, ids=[registry.noun for registry, _ in GROUPS])
def test_a_class_that_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry, base: type
) -> None:
    body = f"from {base.__module__} import {base.__name__}\nclass Faulty({base.__name__}): pass"
    missing = faulty(tmp_path, monkeypatch, registry, body)
    assert missing.startswith("it has no ") and "name" in missing
    wanted = {name for name in base.__annotations__ if not hasattr(base, name)}
    assert all(name in missing for name in {*wanted, *getattr(base, "__abstractmethods__", ())})


@pytest.mark.parametrize(("registry", "base"), GROUPS, ids=[registry.noun for registry, _ in GROUPS])
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("Faulty = (", "SyntaxError: "),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise ValueError('a; b')", "ValueError: a; b"),
        ("Other = 1", "AttributeError: module 'faulty_extension' has no attribute 'Faulty'"),
        ("class Faulty: name = 'faulty'", "not a subclass of modak"),
    ],
    ids=["import", "syntax", "exit", "raises", "absent", "other"],
)
def test_a_module_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry, base: type, body: str, problem: str
) -> None:
    assert faulty(tmp_path, monkeypatch, registry, body).startswith(problem)


def test_a_class_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "from modak_deploy.engines.base import Engine\n"
        "class Faulty(Engine):\n    name = 'faulty'\n    def __init__(self): raise OSError('no licence')"
    )
    assert faulty(tmp_path, monkeypatch, ENGINES, body).startswith("OSError: no licence")


def test_a_builtin_name_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {registry.group: {next(iter(registry.builtin)): "a:B"} for registry, _ in GROUPS}
    plugins.register(tmp_path, "modak-faulty", groups)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.forget(monkeypatch)
    for registry, _ in GROUPS:
        with pytest.raises(InputError, match="which is a name of modak's own; uninstall modak-faulty"):
            registry.names()
