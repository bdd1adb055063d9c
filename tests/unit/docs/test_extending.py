"""The page on extensions names what their classes have, and its example does what it says."""

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from modak_deploy.catalogue.effects import Effect, Run, applied
from modak_deploy.containers.base import Runtime
from modak_deploy.engines.base import Engine
from modak_deploy.extensions import ENGINES, LEVER_EFFECTS, PROVIDERS, RUNTIMES, SCHEDULERS, TARGETS
from modak_deploy.model.kinds import TargetKind
from modak_deploy.providers.base import Provider
from modak_deploy.schedulers.base import Scheduler

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "extending.md").read_text()
SECTIONS = {
    Scheduler: "A scheduler",
    TargetKind: "A type of target",
    Runtime: "A container runtime",
    Effect: "A lever's effect",
    Engine: "An engine",
    Provider: "A provider of instances",
}


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1]


@pytest.mark.parametrize("base", SECTIONS, ids=lambda base: base.__name__)
def test_the_page_names_each_attribute_and_method(base: type) -> None:
    text = section(SECTIONS[base])
    named = {*re.findall(r"`(\w+)`", text), *re.findall(r"^ +(?:def )?(\w+)(?: =|\()", text, re.MULTILINE)}
    public = {name for name in {*vars(base), *base.__annotations__} if not name.startswith("_")} - {"value"}
    assert public - named == set()


def test_the_example_of_an_effect_works() -> None:
    code = re.findall(r"```python\n(.*?)```", section("A lever's effect"), re.DOTALL)[0]
    names = {"Annotated": Annotated, "Field": Field, "Effect": Effect, "Run": Run}
    exec(code, names)  # noqa: S102 - of our own page
    assert applied([[names["Priority"](7)]]).prefix == ["nice", "-n", "7"]


def test_the_page_names_each_group() -> None:
    for registry in (SCHEDULERS, TARGETS, RUNTIMES, LEVER_EFFECTS, ENGINES, PROVIDERS):
        assert f"`{registry.group}`" in PAGE
