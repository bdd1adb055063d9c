"""Every action takes what the documentation of its module says, which is written down once."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[3]
PACKAGE = "ansible_collections.modak.deploy.plugins"
ACTIONS = sorted(path.stem for path in (TOP / "plugins" / "action").glob("*.py") if path.stem != "__init__")


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that reads the documentation."""
    monkeypatch.syspath_prepend(TOP / ".collections")
    yield importlib.import_module(f"{PACKAGE}.plugin_utils.arguments")
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_takes_what_its_module_documents(arguments: ModuleType, name: str) -> None:
    action = importlib.import_module(f"{PACKAGE}.action.{name}").ActionModule
    documented = arguments.arguments_of(name)
    assert action.ARGUMENTS is documented or not (action.ARGUMENTS or documented)


def test_what_only_readers_need_is_left_out(arguments: ModuleType) -> None:
    spec = arguments.arguments_of("image")
    assert spec["compression"] == {"type": "str", "choices": ["gzip", "zstd", "lz4", "none"]}
    assert not any(key in option for option in spec.values() for key in ("description", "version_added"))
    nested = arguments._spec({"a": {"description": "x", "suboptions": {"b": {"type": "int", "description": "y"}}}})
    assert nested == {"a": {"options": {"b": {"type": "int"}}}}


def test_options_of_a_documentation_fragment_belong_to_the_action(arguments: ModuleType) -> None:
    spec = arguments.arguments_of("service")
    assert spec["secret_commands"] == {"type": "bool", "default": False}
    assert spec["search_paths"] == {"type": "list", "elements": "path", "default": []}
