"""Answers of targets, as captured, and the facts that must come out."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.discovery import parse_probe
from modak_deploy.discovery.software import parse_packages
from modak_deploy.errors import TargetError
from modak_deploy.model.target import Facts, Target

DATA = Path(__file__).parents[2] / "data" / "discovery"


def table(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((DATA / name).read_text())


def answer(case: dict[str, Any]) -> str:
    """Return the text that the probe would have printed, after what a login shell likes to say."""
    lines = ["Welcome to the cluster!", ""]
    for name, value in case["parts"].items():
        text = (DATA / "parts" / f"{value[1:]}.txt").read_text() if value.startswith("@") else value
        lines += [f"@@modak:{name}", text, ""]
        if name in case.get("codes", {}):
            lines += ["@@modak:code", str(case["codes"][name]), ""]
    return "\n".join([*lines, *([] if case.get("cut") else ["@@modak:end", ""])])


def target(case: dict[str, Any]) -> Target | None:
    if case["type"] == "any":
        return None
    return Target(name="t", type=case["type"], python=case.get("python"))


def at(facts: Facts, place: str) -> Any:
    value: Any = facts.model_dump(mode="json")
    for part in place.split("."):
        value = value[int(part)] if part.isdigit() else value[part]
    return value


@pytest.mark.parametrize("case", table("facts.yaml"), ids=lambda case: case["name"])
def test_facts(case: dict[str, Any]) -> None:
    facts = parse_probe(answer(case), target(case))
    assert {place: at(facts, place) for place in case["facts"]} == case["facts"]


@pytest.mark.parametrize("case", table("errors.yaml"), ids=lambda case: case["name"])
def test_errors(case: dict[str, Any]) -> None:
    with pytest.raises(TargetError) as caught:
        parse_probe(answer(case), target(case))
    assert str(caught.value) == case["error"]


def test_only_the_libraries_that_are_wanted() -> None:
    case = {"parts": {"ldconfig": "@debian12-ldconfig"}}
    every = parse_probe(answer(case), Target(name="t")).libraries
    assert len(every) > 30
    assert every == sorted(set(every))
    wanted = [every[3], every[7], "libabsent.so.1"]
    assert parse_probe(answer(case), Target(name="t"), libraries=wanted).libraries == wanted[:2]


def test_packages_of_an_equal_listing_are_a_dictionary_of_their_own() -> None:
    listing = "numpy-2.0.0.dist-info\nTyping_Extensions-4.1.dist-info\n"
    first = parse_packages(listing)
    first.clear()
    assert parse_packages(listing) == {"numpy": "2.0.0", "typing-extensions": "4.1"}
