"""Every option becomes a directive on every scheduler, or is refused by its name."""

from dataclasses import replace
from typing import Any

import pytest

from modak_deploy.diagnostics import dotted
from modak_deploy.errors import InputError, OptionError
from modak_deploy.model.request import JobOptions
from modak_deploy.planning import check_options
from modak_deploy.schedulers.options import Layout, hosts
from scheduler_parts import make, table

CASES = table("options")
SCHEDULERS = ("slurm", "torque", "openpbs", "process")


@pytest.mark.parametrize(
    ("case", "scheduler"),
    [pytest.param(c, s, id=f"{s}-{c['name']}") for c in CASES for s in SCHEDULERS if s in c],
)
def test_option_is_a_directive_or_refused(case: dict[str, Any], scheduler: str) -> None:
    more = {key: case[key] for key in ("job", "target", "resources", "directory") if key in case}
    part = make(scheduler, **more)
    expected = case[scheduler]
    if isinstance(expected, str):
        with pytest.raises(InputError) as refusal:
            part.script()
        assert str(refusal.value).startswith(expected)
        assert "\n" not in str(refusal.value)
    else:
        header = [line for line in part.script().splitlines() if line.startswith(("#SBATCH", "#PBS"))]
        assert set(expected) <= set(header)
        assert header == part.scheduler.directives(replace(part.spec, own_shell=part.scheduler.script_is_shell))
        assert len({line.split("=")[0] for line in header if "-l" not in line}) == len(
            [line for line in header if "-l" not in line]
        ), "an option is given twice"


def test_every_option_has_a_row() -> None:
    assert set(JobOptions.model_fields) == {key for case in CASES for key in case.get("job", {})}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1-3,7],m1", ["n1", "n2", "n3", "n7", "m1"]),
        ("n[08-11]x", ["n08x", "n09x", "n10x", "n11x"]),
    ],
)
def test_host_lists_are_expanded(text: str, names: list[str]) -> None:
    assert hosts(text) == names


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 1), (2, 7), (3, 3), (4, 9), (5, 23)])
def test_what_is_reserved_is_what_is_launched(nodes: int, ranks: int) -> None:
    layout = Layout(nodes, ranks, 2)
    assert sum(layout.per_node()) == ranks
    assert max(layout.per_node()) - min(layout.per_node()) <= 1
    assert sum(count * each for count, each in layout.groups()) == ranks
    assert sum(count for count, _ in layout.groups()) == nodes


@pytest.mark.parametrize(
    ("case", "scheduler"),
    [pytest.param(c, s, id=f"{s}-{c['name']}") for c in CASES for s in SCHEDULERS if s in c],
)
def test_planning_refuses_what_the_job_would_refuse(case: dict[str, Any], scheduler: str) -> None:
    part = make(scheduler, **{key: case[key] for key in ("job", "target", "resources") if key in case})
    expected = case[scheduler]
    if "directory" in case or (isinstance(expected, str) and not expected.startswith("job.")):
        pytest.skip("it is no option")
    if isinstance(expected, str):
        with pytest.raises(OptionError) as refusal:
            check_options(part.request)
        assert str(refusal.value).startswith(expected)
        assert expected.startswith(dotted(refusal.value.diagnostics[0].path))
    else:
        check_options(part.request)
