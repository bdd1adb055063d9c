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
    "modak_deploy/__init__.py",
    "modak_deploy/__main__.py",
    "modak_deploy/addresses.py",
    "modak_deploy/catalogue",
    "modak_deploy/cli.py",
    "modak_deploy/commands.py",
    "modak_deploy/containers",
    "modak_deploy/deploy",
    "modak_deploy/diagnostics.py",
    "modak_deploy/discovery",
    "modak_deploy/documents",
    "modak_deploy/engines",
    "modak_deploy/errors.py",
    "modak_deploy/evidence",
    "modak_deploy/extensions.py",
    "modak_deploy/images",
    "modak_deploy/inventory.py",
    "modak_deploy/jobmodel",
    "modak_deploy/jobrequest.py",
    "modak_deploy/jobs",
    "modak_deploy/kept.py",
    "modak_deploy/launch",
    "modak_deploy/manifest.py",
    "modak_deploy/model",
    "modak_deploy/kubernetes",
    "modak_deploy/numbers.py",
    "modak_deploy/onnx",
    "modak_deploy/optimiser",
    "modak_deploy/options.py",
    "modak_deploy/performance",
    "modak_deploy/planning.py",
    "modak_deploy/providers",
    "modak_deploy/reported.py",
    "modak_deploy/schedulers",
    "modak_deploy/secret_values.py",
    "modak_deploy/serve",
    "modak_deploy/shell.py",
    "modak_deploy/sites",
    "modak_deploy/state.py",
    "modak_deploy/terminal.py",
    "modak_deploy/tosca",
    "modak_deploy/transport",
    "modak_deploy/tuning",
    "modak_deploy/util",
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
