"""Random changes of documents: of their data, of their characters, lines and bytes."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import yaml

TEXTS = [
    "",
    " ",
    "\t",
    "\n",
    "\0",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "\u202e",
    "-x",
    "--",
    "~",
    "..",
    "../../etc/passwd",
    "/",
    "$(id)",
    "`id`",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "!!python/object:os.system",
    "%s%n",
    "'",
    '"',
    "\\",
    "a" * 5000,
    "\ud800",
    "é",
    "²",
    "٣",
    "1e999",
    "-1",
    "0x10",
    "010",
    "90:00",
    "nan",
    "null",
    "true",
    "on",
    "https://user:hunter2@h/x",
    "docker://x/y@z",
]
JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**70),
    16**4000,
    10**30,
    0.0,
    -0.0,
    0.5,
    1e308,
    1e-320,
    float("inf"),
    float("-inf"),
    float("nan"),
    [],
    {},
    [[]],
    {"": {}},
    [None],
    {"a": 1},
    {"get_input": "host"},
    {"name": "x"},
    *TEXTS,
]
RAW = [
    "\t",
    "\0",
    "\x1b]0;x\x07",
    "\ufeff",
    "\u2028",
    ": ",
    "- ",
    "&a ",
    "*a ",
    "<<: *a",
    "!!binary x",
    "!unsafe x",
    "!vault |",
    "? ",
    "---\n",
    "...\n",
    "%YAML 9.9\n",
    "[",
    "{",
    "]",
    "}",
    '"',
    "'",
    "#",
    "|",
    ">",
    "@",
    "`",
    "\r",
    "\x85",
    "9" * 5000,
    "0x" + "f" * 5000,
    "1e99999",
    "[" * 300,
    "{a: " * 300,
    "{" * 2000,
    "\n\n",
    "null",
    "2026-02-30",
    "=",
    ",",
    "\\u0000",
    "\\ud800",
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield from paths(inner, (*path, key))


def mutate_data(data: Any, rng: random.Random) -> Any:
    """Return the data with one to three changes."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *parents, last = rng.choice([path for path in paths(data) if path] or [(None,)])
        if last is None:
            return rng.choice(JUNK)
        where = data
        for key in parents:
            where = where[key]
        match rng.randrange(9):
            case 0:
                del where[last]
            case 1 if isinstance(where, dict) and isinstance(last, str):
                where[misspelt(last, rng)] = where.pop(last)
            case 2 if isinstance(where, dict):
                where[rng.choice([*TEXTS, "name", "type", "host", "environment"])] = rng.choice(JUNK)
            case 3:
                where[last] = [where[last]]
            case 4:
                where[last] = {"x": where[last]}
            case 5:
                *others, key = rng.choice([path for path in paths(data) if path])
                source = data
                for part in others:
                    source = source[part]
                where[last] = copy.deepcopy(source[key])
            case 6 if isinstance(where[last], str):
                place = rng.randrange(len(where[last]) + 1)
                where[last] = where[last][:place] + rng.choice(TEXTS) + where[last][place:]
            case 7:
                for _ in range(rng.choice((50, 99, 150, 400))):
                    where[last] = {"a": where[last]} if rng.random() < 0.5 else [where[last]]
            case _:
                where[last] = rng.choice(JUNK)
    return data


def misspelt(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word) + 1)
    return rng.choice(
        (word[:place] + word[place + 1 :], word[:place] + "x" + word[place:], word.upper(), word + "s", "")
    )


def mutate_text(text: str, rng: random.Random) -> bytes:
    """Return the text with one to three changes of its characters, lines or bytes."""
    data = text.encode()
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(data) + 1)
        lines = data.split(b"\n")
        line = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
            case 1:
                data = data[:place] + data[place + rng.randrange(1, 40) :]
            case 2:
                data = data[:place]
            case 3:
                data = b"\n".join([*lines[:line], *lines[line + 1 :]])
            case 4:
                data = b"\n".join([*lines[: line + 1], *lines[line:]])
            case 5:
                data = b"\n".join([*lines[:line], rng.choice((b" ", b"  ", b"\t")) + lines[line], *lines[line + 1 :]])
            case _:
                data = data[:place] + rng.choice(RAW).encode() + data[place:]
    return data


def dumped(data: Any, name: str) -> bytes:
    """Return the data as the file's own format writes it, as far as it can."""
    try:
        if name.endswith(".json"):
            return json.dumps(data, indent=2).encode()
        if name.endswith(".jsonl"):
            return b"\n".join(json.dumps(item).encode() for item in data) + b"\n"
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return repr(type(data)).encode()


def parsed(text: str, name: str) -> Any:
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
