"""The vocabulary: packages that have the terms of CONTRIBUTING.md keep them."""

import importlib.util
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("strings", TOP / "scripts" / "strings.py")
assert _SPEC is not None
assert _SPEC.loader is not None
strings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(strings)

CLEAN = (
    "modak/__init__.py",
    "modak/__main__.py",
    "modak/addresses.py",
    "modak/catalogue",
    "modak/cli.py",
    "modak/commands.py",
    "modak/containers",
    "modak/deploy",
    "modak/diagnostics.py",
    "modak/discovery",
    "modak/documents",
    "modak/engines",
    "modak/errors.py",
    "modak/evidence",
    "modak/extensions.py",
    "modak/images",
    "modak/inventory.py",
    "modak/jobmodel",
    "modak/jobrequest.py",
    "modak/jobs",
    "modak/kept.py",
    "modak/launch",
    "modak/manifest.py",
    "modak/model",
    "modak/numbers.py",
    "modak/onnx",
    "modak/optimiser",
    "modak/performance",
    "modak/planning.py",
    "modak/providers",
    "modak/reported.py",
    "modak/schedulers",
    "modak/secret_values.py",
    "modak/serve",
    "modak/shell.py",
    "modak/sites",
    "modak/state.py",
    "modak/terminal.py",
    "modak/tosca",
    "modak/transport",
    "modak/tuning",
    "modak/util",
    "plugins/action",
    "plugins/filter",
    "plugins/inventory",
    "plugins/modules",
    "plugins/plugin_utils",
)
"""Packages and modules without a name of the old vocabulary; the list grows, and nothing leaves it."""


@pytest.mark.parametrize("package", CLEAN)
def test_package_has_no_name_of_the_old_vocabulary(package: str) -> None:
    hits = {str(file.relative_to(TOP)): dict(strings.old_names(file)) for file in strings.python_files(package)}
    assert {file: names for file, names in hits.items() if names} == {}


def test_names_are_found_in_every_kind_of_binding(tmp_path: Path) -> None:
    module = tmp_path / "place.py"
    module.write_text(
        "class Verdict: ...\ndef tell(told, known_hosts):\n    for one_word in told:\n        found = 1\n"
    )
    assert dict(strings.old_names(module)) == {"place": 1, "Verdict": 1, "told": 1, "one_word": 1, "found": 1}


def test_strings_that_users_read_are_listed() -> None:
    texts = list(strings.texts())
    assert {text.kind for text in texts} == {"help", "message", "module", "role", "task"}
    assert any(text.text == "file not found" and text.file.name == "reading.py" for text in texts)
