"""The defaults of each role agree with its argument specs, which Ansible checks and the READMEs show."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted(path for path in (Path(__file__).resolve().parents[3] / "roles").iterdir() if path.is_dir())
COMPUTED = {"tosca_sections"}
"""Ansible renders a variable of the specs when it checks a role's arguments; this one follows from the first task."""
ABSENT: tuple[Any, ...] = (None, "", [], {})
"""Defaults that need no mention."""


def read(role: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the defaults of a role and the options of each of its entry points."""
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text())
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    return defaults, [spec["options"] for spec in specs.values()]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_each_default_is_an_option(role: Path) -> None:
    defaults, specs = read(role)
    assert defaults.keys() - {name for options in specs for name in options} - COMPUTED == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_specs_name_the_defaults(role: Path) -> None:
    defaults, specs = read(role)
    for name, value in defaults.items():
        told = [options[name]["default"] for options in specs if "default" in options.get(name, {})]
        assert all(default == value for default in told), name
        assert told or value in ABSENT or "{{" in str(value), f"{name}: the specs name no default"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_what_is_required_has_no_default(role: Path) -> None:
    """Ansible takes a default for an argument, and would not say that the required one is missing."""
    defaults, specs = read(role)
    required = {name for options in specs for name, option in options.items() if option.get("required")}
    assert required & defaults.keys() == set()
