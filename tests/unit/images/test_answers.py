"""Whatever a target answers to the image steps is an image or one error that is safe to be shown."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.errors import TargetError
from modak_deploy.images import answers
from modak_deploy.jobs.remote import Answer
from modak_deploy.model.plan import Image, Plan
from modak_deploy.terminal import visible

CASES = yaml.safe_load((Path(__file__).parents[2] / "data" / "images" / "odd_store.yaml").read_text())
WORDS = {"SUM": "a" * 64, "DIGITS": "9" * 5000, "DEEP": "[" * 100_000}


@pytest.fixture
def image(make_plan: Callable[..., Plan]) -> Image:
    chosen = make_plan().chosen.image
    assert chosen is not None
    return chosen


def parse(kind: str, image: Image, answer: Answer) -> object:
    parsers: dict[str, Callable[[], object]] = {
        "held": lambda: answers.in_folder("/images/a.sif", answer),
        "pulled": lambda: answers.in_folder("/images/a.sif", answer, seconds=answers.pull_seconds(answer)),
        "pulled_to_store": lambda: answers.pulled_to_store("a", answer),
        "digest": lambda: answers.digest(answer),
        "collected": lambda: answers.collected(answer),
        "checked": lambda: answers.checked(image, "/images/a.sif", answer, 0),
        "checked_in_store": lambda: answers.checked_in_store(image, "a", answer),
    }
    return parsers[kind]()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{str(case['parts'])[:50]}")
def test_an_odd_answer_is_parsed_or_one_error(case: dict[str, Any], image: Image) -> None:
    parts = []
    for name, text in case["parts"].items():
        for word, meaning in {**WORDS, "GOOD": image.digest or ""}.items():
            text = text.replace(word, meaning)
        parts.append((name, text))
    with pytest.raises(TargetError) if case["error"] else nullcontext() as caught:
        parse(case["kind"], image, Answer(parts, ""))
    if case["error"]:
        message = str(caught.value)
        assert case["error"] in message
        assert visible(message) == message and len(message) < 1500
