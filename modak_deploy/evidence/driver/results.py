"""What a run has written, and whether it is what the default writes."""

import array as arrays
import ast
import hashlib
import math
import os
import re
import stat
import struct
from collections import deque
from functools import lru_cache
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple, Union

LARGE = 64 * 1024 * 1024
"""Bytes of an output that are compared."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
MARK = "\0"
"""Stands for a number in the text between numbers."""
TERM = re.compile(r"[^\W\d_]\w*|_\w+")
LONGEST = 60
"""Characters of a word or a column's head that count."""
SMALL = 1e-3
"""Share of the largest number of an output below which differences count by the size of the others.

Residuals and differences have the rounding errors of what they are made from: those of single precision, some 1e-7 of
it, are no more than the tolerance then. Whole numbers, such as a count of samples, are seldom what others are made of.
"""
ROUNDING = 1e-6
"""The same share where the largest number is a whole one."""
TIMES = {
    "second", "seconds", "sec", "secs", "ms", "minutes", "hours", "time", "times", "timing", "timings", "timestamp",
    "timestamps", "date", "dates", "elapsed", "duration", "durations", "throughput", "throughputs", "latency",
    "latencies", "memory", "host", "hosts", "hostname", "pid", "path", "paths",
}  # fmt: skip
QUALITIES = {
    "error", "errors", "err", "positive", "positives", "negative", "negatives", "success", "failure", "hit", "hits",
    "miss", "misses", "learning", "detection", "acceptance", "rejection", "recall", "correct", "match",
}  # fmt: skip
"""With one of these a rate is a result, such as an error rate, and no speed."""
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
UNIT_BEFORE = re.compile(r"\((?:[mun]?s|sec\w*|minutes?|hours?)\)\W*$")
UNIT_BEHIND = re.compile(r" ?(?:[mun\u00b5]?s|sec(?:ond)?s?|minutes?|hours?|\w+/s(?:ec(?:ond)?)?)\b")
Content = Tuple[List[float], str]
"""Numbers, and the text between them."""
Results = Dict[str, Content]
ABSENT: Content = ([], "absent")


def contents(path: str) -> Content:
    """Return the numbers of a text file and the text between them; of another file its bytes' digest."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for its other end
            return ([], "no file")
        with open(path, "rb") as file:
            data = file.read(LARGE)
    except OSError:
        return ABSENT
    if path.endswith(".npy") and data[:6] == b"\x93NUMPY":
        try:
            return array(data)
        except (ValueError, SyntaxError, LookupError, TypeError, RecursionError, MemoryError, struct.error):
            pass  # a broken one, or one of records: its bytes count
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ([], hashlib.sha256(data).hexdigest())
    return ([float(number) for number in NUMBER.findall(text)], NUMBER.sub(MARK, text))


def metric_numbers(metrics: Dict[str, Any]) -> Results:
    """Return the numbers of metrics, also of mappings and lists within them; what is named as a time is left out."""
    results: Results = {}
    waiting: Deque[Tuple[str, Any]] = deque([("metrics", metrics)])
    while waiting:
        name, value = waiting.popleft()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", inner) for key, inner in value.items() if not is_time(key)]
        elif isinstance(value, list) and all(map(is_number, value)):
            results[name] = (list(map(number, value)), "")
        elif isinstance(value, list):
            waiting += [(f"{name}[{index}]", inner) for index, inner in enumerate(value)]
        elif is_number(value):
            results[name] = ([number(value)], "")
    return results


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@lru_cache(maxsize=4096)
def is_time(name: str) -> bool:
    """Return whether a name is that of a time, or of something else that is no result, such as a folder.

    Its words count and not its letters: ``sentiment_loss``, ``validated`` and ``word_error_rate`` are results.
    """
    terms = [term.lower() for term in PART.findall(name)]
    if any(term in TIMES or term.endswith(("seconds", "time")) for term in terms):
        return True
    if "rate" in terms or "rates" in terms:
        return QUALITIES.isdisjoint(terms)
    return any(pair == ("per", "s") for pair in zip(terms, terms[1:]))


def number(value: Union[int, float]) -> float:
    """Return a number of a JSON document, whose whole numbers may be larger than any float."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def array(data: bytes) -> Content:
    """Return the numbers of a NumPy file of floats; see numpy.lib.format."""
    size = struct.unpack("<H", data[8:10])[0] if data[6] == 1 else struct.unpack("<I", data[8:12])[0]
    start = (10 if data[6] == 1 else 12) + size
    header = ast.literal_eval(data[start - size : start].decode("latin1"))
    kind = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}.get(header["descr"])
    shape = "{} {}".format(header["descr"], header["shape"])
    if kind is None:
        return ([], shape + data[start:].hex())
    whole = len(data[start:]) // struct.calcsize("<" + kind)
    return (list(map(float, struct.unpack_from(f"<{whole}{kind}", data, start))), shape)


@lru_cache(maxsize=4)  # the form of a large output is the same in all runs
def kinds(form: str, count: int) -> Dict[str, Sequence[int]]:
    """Return the indices of an output's numbers by what they are: the word before them, or their column.

    Each kind is compared for itself: beside the numbers of its rows, a table's values are small, and beside a count of
    samples an accuracy is. A list in brackets is one kind, whose values near 0 count by the size of the others. Times
    are left out, as those of metrics are.
    """
    if form.count(MARK) != count:  # an array, or a text that holds the mark itself
        return {"": range(count)}
    indices: Dict[str, Any] = {}
    index, depth, term = 0, 0, ""
    heads: List[str] = []
    for line in form.split("\n"):
        parts = line.split(MARK)
        column, named = 0, False
        if len(parts) == 1:
            heads = re.split("[,;\t]", line)
        for before, behind in zip(parts, parts[1:]):
            depth = max(0, depth + opened(before))
            terms = TERM.findall(before)
            if terms:
                term, named, column = terms[-1], True, 0
            label = term
            if not named and not depth:
                label = heads[column].strip(' "') if len(heads) == len(parts) - 1 > 1 else f"column {column + 1}"
            if not (is_time(label) or UNIT_BEFORE.search(before[-LONGEST:]) or UNIT_BEHIND.match(behind)):
                key = f"{label[:LONGEST]} {column + 1}" if named and column and not depth else label[:LONGEST]
                indices.setdefault(key, arrays.array("L")).append(index)
            index, column = index + 1, column + 1
        depth = max(0, depth + opened(parts[-1]))
        term = (TERM.findall(parts[-1]) or [term])[-1]
    return indices


def opened(text: str) -> int:
    """Return how many more brackets a text opens than it closes."""
    return text.count("[") + text.count("(") - text.count("]") - text.count(")")


def differences(first: Content, other: Content) -> Dict[str, float]:
    """Return the relative differences of two results by kinds of numbers; infinite where they have not the same form.

    Kinds that are the same are left out. That of a result with one kind has the empty name, as the whole has.
    """
    (a, form_a), (b, form_b) = first, other
    if form_a != form_b or len(a) != len(b):
        return {"": math.inf}
    if a == b:
        return {}
    finite = [abs(x) for values in (a, b) for x in values if math.isfinite(x)]
    largest = max(finite, default=0.0)
    least = max(SMALL * max((x for x in finite if not x.is_integer()), default=0.0), ROUNDING * largest)
    indices = kinds(form_a, len(a))
    apart: Dict[str, float] = {}
    for label, own in indices.items():
        x, y = ([values[index] for index in own] for values in (a, b))
        if x != y:
            apart["" if len(indices) == 1 else label] = distance(x, y, largest, least)
    return apart


def distance(a: List[float], b: List[float], largest: float, least: float) -> float:
    """Return the norm of the difference over that of the first; ``largest`` is the largest number of the output.

    Below ``least`` a number's size counts as that.
    What is not finite on both sides alike, such as a value that is masked, is no difference.
    """
    odd = {index for index, (x, y) in enumerate(zip(a, b)) if not (math.isfinite(x) and math.isfinite(y))}
    if any(repr(a[index]) != repr(b[index]) for index in odd):
        return math.inf
    if odd:
        a, b = ([x for index, x in enumerate(values) if index not in odd] for values in (a, b))
    if largest == 0 or not a:
        return 0.0
    # Divided first: the square of a number above 1e154 is none any more.
    size = math.sqrt(sum((x / largest) ** 2 for x in a))
    apart = math.sqrt(sum((x / largest - y / largest) ** 2 for x, y in zip(a, b)))
    return apart / max(size, least / largest * math.sqrt(len(a)))


def difference(first: Content, other: Content) -> float:
    """Return the largest relative difference of two results."""
    return max(differences(first, other).values(), default=0.0)


class Reference:
    """The default's results, and by how much its own repeats differ."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.first: Optional[Results] = None
        self.spread: Dict[Tuple[str, str], float] = {}
        """By the name of a result and the kind of its numbers."""

    def learn(self, results: Results) -> None:
        """Take the results of a run of the default."""
        if self.first is None:
            self.first = results
            return
        for name, value in self.first.items():
            for kind, apart in differences(value, results.get(name, ABSENT)).items():
                self.spread[name, kind] = max(self.spread.get((name, kind), 0.0), apart)

    def comparable(self) -> List[str]:
        """Return the names of the results that the default itself repeats."""
        return [name for name in self.first or {} if self.spread.get((name, "")) != math.inf]

    def fault(self, results: Results) -> Optional[str]:
        """Return how results differ from the default's beyond the tolerance; None where they do not."""
        for name in self.comparable():
            for kind, apart in differences((self.first or {})[name], results.get(name, ABSENT)).items():
                most = max(self.tolerance, 3 * self.spread.get((name, kind), 0.0))
                if apart > most:
                    what = f"{kind} in {name}" if kind else name
                    return f"{what[:200]} differs from the default's by {apart:.3g}, more than {most:.3g}"
        return None
