"""Odd answers of targets: captured ones in which something stands that does not belong there.

Each generator is a function of a ``random.Random`` alone, so that a seed gives the same answers again, and yields as
many as it is asked for.
"""

import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data"
_NUMBERS = re.compile(r"\d+")
_PLACES = re.compile(r"\d+(?:\.\d+)*|[A-Za-z][A-Za-z0-9_.-]*|[|:,=]")


def tokens() -> list[str]:
    """Return what stands where it does not belong."""
    rows = yaml.safe_load((DATA / "odd" / "tokens.yaml").read_text())
    return [row["text"] * row.get("times", 1) for row in rows] + ["\ud800", "\udc80"]


TOKENS = tokens()


def odd(text: str, draw: random.Random) -> str:
    """Return ``text`` with one to three changes: an odd token, a cut, a line twice, two lines exchanged, noise."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice((_replaced, _replaced, _replaced, _inserted, _cut, _doubled, _exchanged))(text, draw)
    return text


def _replaced(text: str, draw: random.Random) -> str:
    places = list((_NUMBERS if draw.random() < 0.6 else _PLACES).finditer(text))
    if not places:
        return _inserted(text, draw)
    place = draw.choice(places)
    return text[: place.start()] + draw.choice(TOKENS) + text[place.end() :]


def _inserted(text: str, draw: random.Random) -> str:
    place = draw.randint(0, len(text))
    return text[:place] + draw.choice(TOKENS) + text[place:]


def _cut(text: str, draw: random.Random) -> str:
    return text[: draw.randint(0, len(text))]


def _doubled(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines, draw.choice(lines)]) if lines else text


def _exchanged(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    draw.shuffle(lines)
    return "".join(lines)


def discovery_answers(draw: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield types of targets, each with an odd answer to the discovery."""
    cases = yaml.safe_load((DATA / "discovery" / "facts.yaml").read_text())
    for _ in range(count):
        case = draw.choice(cases)
        parts = {name: _part(text) for name, text in case["parts"].items()}
        name = draw.choice(sorted(parts) or ["host"])
        parts.setdefault(name, "")
        parts[name] = odd(parts[name], draw)
        lines = []
        for part, text in parts.items():
            lines += [f"@@modak:{part}", text, ""]
            if part in case.get("codes", {}):
                lines += ["@@modak:code", str(case["codes"][part]), ""]
        answer = "\n".join([*lines, "@@modak:end", ""])
        yield case["type"], odd(answer, draw) if draw.random() < 0.2 else answer


def _part(text: str) -> str:
    return (DATA / "discovery" / "parts" / f"{text[1:]}.txt").read_text() if text.startswith("@") else text


def scheduler_answers(draw: random.Random, count: int, *schedulers: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield cases of tests/data/schedulers/states.yaml, each with an odd answer to the question for states."""
    cases = yaml.safe_load((DATA / "schedulers" / "states.yaml").read_text())
    cases = [case for case in cases if case["scheduler"] in schedulers]
    for _ in range(count):
        case = draw.choice(cases)
        text = (DATA / "schedulers" / case["file"]).read_text() if "file" in case else case["text"]
        yield case, odd(text, draw)


def texts(draw: random.Random, count: int) -> Iterator[str]:
    """Yield short texts that are odd from the start."""
    return islice(iter(lambda: odd(draw.choice(TOKENS)[:5000], draw), None), count)
