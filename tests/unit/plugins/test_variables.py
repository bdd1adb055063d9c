"""Extra variables of the playbooks: nearly right names, and those that one of them does not support."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
Check = Callable[..., None]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Check the extra variables that are given, among others of an inventory."""
    monkeypatch.syspath_prepend(TOP / ".collections")
    variables = importlib.import_module("ansible_collections.modak.deploy.plugins.plugin_utils.variables")

    def check(*extra: str, playbook: str) -> None:
        monkeypatch.setattr(variables, "load_extra_vars", lambda loader: dict.fromkeys(extra, "x"))
        variables.check_extra_variables(None, [*extra, "wait", "force", "benchmark_lever"], playbook)

    yield check
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("playbook", "name", "near"),
    [
        ("deploy", "forse", "force"),
        ("tune", "round", "rounds"),
        ("tune", "tune_bugdet", "tune_budget"),
        ("benchmark", "benchmark_lever", "benchmark_levers"),
        ("benchmark", "benchmark_everthing", "benchmark_everything"),
        ("benchmark", "recrod", "record"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_right_one(
    check: Check, playbook: str, name: str, near: str
) -> None:
    with pytest.raises(Exception, match=f"the extra variable '{name}' is unknown; did you mean '{near}'"):
        check(name, playbook=playbook)


@pytest.mark.parametrize(
    ("playbook", "name"),
    [("tune", "wait"), ("benchmark", "force"), ("benchmark", "secret_commands")],
)
def test_a_variable_without_effect_is_refused_where_it_is_given_for_this_run(
    check: Check, playbook: str, name: str
) -> None:
    with pytest.raises(Exception, match=f"the extra variable '{name}' is not supported by '{playbook}'; leave it out"):
        check(name, playbook=playbook)
    check("results", "search_paths", playbook=playbook)  # 'wait' and 'force' of the inventory pass


@pytest.mark.parametrize(
    ("playbook", "names"),
    [
        ("deploy", ["wait", "record", "round", "site_color"]),
        ("tune", ["rounds", "confirm", "tune_rounds", "benchmark_lever", "tune_color"]),
        ("benchmark", ["record", "benchmark_least", "benchmark_name", "round"]),
    ],
)
def test_other_variables_pass(check: Check, playbook: str, names: list[str]) -> None:
    check(*names, playbook=playbook)
