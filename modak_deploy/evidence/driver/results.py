"""What a run has written, and whether it is what the default writes."""

import ast
import hashlib
import math
import os
import re
import stat
import struct
from typing import Dict, List, Optional, Tuple, Union

LARGE = 64 * 1024 * 1024
"""Bytes of an output that are compared."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
Content = Tuple[List[float], str]
"""Numbers, and the text between them."""
Results = Dict[str, Content]


def contents(path: str) -> Content:
    """Return the numbers of a text file and the text between them; of another file its bytes' digest."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for its other end
            return ([], "no file")
        with open(path, "rb") as file:
            data = file.read(LARGE)
    except OSError:
        return ([], "absent")
    if path.endswith(".npy") and data[:6] == b"\x93NUMPY":
        try:
            return array(data)
        except (ValueError, SyntaxError, LookupError, TypeError, RecursionError, MemoryError, struct.error):
            pass  # a broken one, or one of records: its bytes count
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ([], hashlib.sha256(data).hexdigest())
    return ([float(number) for number in NUMBER.findall(text)], NUMBER.sub("#", text))


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


def difference(first: Content, other: Content) -> float:
    """Return the relative difference of two results, infinite where they have not the same form."""
    (a, form_a), (b, form_b) = first, other
    if form_a != form_b or len(a) != len(b):
        return math.inf
    # What is not finite on both sides alike, such as a value that is masked, is no difference.
    odd = {index for index, (x, y) in enumerate(zip(a, b)) if not (math.isfinite(x) and math.isfinite(y))}
    if any(repr(a[index]) != repr(b[index]) for index in odd):
        return math.inf
    if odd:
        a, b = ([x for index, x in enumerate(values) if index not in odd] for values in (a, b))
    largest = max((abs(x) for values in (a, b) for x in values), default=0.0)
    if largest == 0:
        return 0.0
    # Divided first: the square of a number above 1e154 is none any more.
    size = math.sqrt(sum((x / largest) ** 2 for x in a))
    apart = math.sqrt(sum((x / largest - y / largest) ** 2 for x, y in zip(a, b)))
    return apart / size if size else (0.0 if apart == 0 else math.inf)


class Reference:
    """The default's results, and by how much its own repeats differ."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.first: Optional[Results] = None
        self.spread: Dict[str, float] = {}

    def learn(self, results: Results) -> None:
        """Take the results of a run of the default."""
        if self.first is None:
            self.first = results
            return
        for name, value in results.items():
            if name in self.first:
                self.spread[name] = max(self.spread.get(name, 0.0), difference(self.first[name], value))

    def fault(self, results: Results) -> Optional[str]:
        """Return how results differ from the default's beyond the tolerance; None where they do not."""
        for name, value in (self.first or {}).items():
            own = self.spread.get(name, 0.0)
            if own == math.inf:  # the default does not repeat it either
                continue
            apart = difference(value, results.get(name, ([], "absent")))
            if apart > max(self.tolerance, 3 * own):
                return f"{name} differs from the default's by {apart:.3g}, more than {max(self.tolerance, 3 * own):.3g}"
        return None
