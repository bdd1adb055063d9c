"""Random values for the fuzzer: text from a table of attacks, mutated text, names of files, trees of JSON."""

import json
from pathlib import Path
from random import Random
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
STRINGS: list[str] = json.loads((DATA / "fuzz" / "strings.json").read_text())
NAMES: list[str] = json.loads((DATA / "results" / "names.json").read_text())


def text(random: Random, most: int = 6) -> str:
    """Return pieces of the table and other characters, one after the other."""
    return "".join(
        random.choice(STRINGS) if random.random() < 0.7 else chr(random.randrange(random.choice([128, 0x10000])))
        for _ in range(random.randint(0, most))
    )


def mutated(random: Random, sample: str) -> str:
    """Return a sample with some of its characters, lines or numbers replaced, repeated, moved or left out."""
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(sample))
        end = min(len(sample), start + random.choice([0, 1, 3, 20, 200]))
        match random.randrange(6):
            case 0:
                sample = sample[:start] + sample[end:]
            case 1:
                sample = sample[:start] + random.choice(STRINGS) + sample[end:]
            case 2:
                sample = sample[:start] + sample[start:end] * random.choice([2, 5, 50]) + sample[end:]
            case 3:
                sample = sample[:start]
            case 4:
                sample = sample[end:] + sample[:end]
            case 5:
                lines = sample.split("\n")
                random.shuffle(lines)
                sample = "\n".join(lines)
    return sample


def name(random: Random) -> str:
    """Return the legal name of a file: any bytes but NUL and '/', 255 at most."""
    raw = random.choice(NAMES) if random.random() < 0.6 else text(random, 3) + random.choice(["", "x", "\n"])
    data = raw.encode("utf-8", "surrogatepass" if random.random() < 0.5 else "ignore")
    data = data.replace(b"\0", b"").replace(b"/", b"_")[:200]
    return "x" if data in (b"", b".", b"..") else data.decode("utf-8", "surrogateescape")


def tree(random: Random, depth: int = 0) -> Any:
    """Return a value for json.dumps, of any shape."""
    kind = random.randrange(9 if depth < 6 else 6)
    match kind:
        case 0:
            return random.choice([0, 1, -1, 10**30, 2**63, 0.5, 1e300, True, False, None])
        case 1 | 2:
            return text(random, 3)
        case 3:
            return random.random() * 10 ** random.randint(-10, 10)
        case 4 | 5:
            return [random.random() for _ in range(random.choice([0, 1, 5, 200]))]
        case 6:
            return [tree(random, depth + 1) for _ in range(random.randint(0, 4))]
        case _:
            return {text(random, 2): tree(random, depth + 1) for _ in range(random.randint(0, 4))}
