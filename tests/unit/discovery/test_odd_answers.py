"""Whatever a target answers to the discovery is facts or one clean error, never another exception."""

import random

import pytest

from modak_deploy.discovery import parse_probe
from modak_deploy.errors import ModakError
from modak_deploy.model.target import Facts, Target
from odd_answers import discovery_answers


def outcome(kind: str, text: str) -> Facts | str:
    """Return the facts, or the message of the error."""
    try:
        facts = parse_probe(text, None if kind == "any" else Target(name="t", type=kind))
    except ModakError as error:
        return str(error)
    return Facts.model_validate_json(facts.model_dump_json())


@pytest.mark.parametrize("seed", range(8))
def test_facts_or_one_clean_error(seed: int) -> None:
    for kind, text in discovery_answers(random.Random(seed), 100):
        found = outcome(kind, text)
        if isinstance(found, str):
            assert found
            assert len(found) < 1000
            assert found.isprintable(), found
