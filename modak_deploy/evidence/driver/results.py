"""What a run has written, and whether it is what the default writes."""

import ast
import hashlib
import math
import re
import struct
from typing import Dict, List, Optional, Tuple

LARGE = 64 * 1024 * 1024
"""Bytes of an output that are compared."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
Content = Tuple[List[float], str]
"""Numbers, and the text between them."""
Results = Dict[str, Content]


def contents(path: str) -> Content:
    """Return the numbers of a text file and the text between them; of another file its bytes' digest."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGE)
    except OSError:
        return ([], "absent")
    if path.endswith(".npy") and data[:6] == b"\x93NUMPY":
        return array(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ([], hashlib.sha256(data).hexdigest())
    return ([float(number) for number in NUMBER.findall(text)], NUMBER.sub("#", text))


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
    size = math.sqrt(sum(x * x for x in a))
    apart = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))
    if not math.isfinite(apart) or not math.isfinite(size):
        return math.inf
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
