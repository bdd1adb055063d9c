"""A target that answers each step as a case of the fuzzer says."""

import io
import re
from collections.abc import Callable
from pathlib import Path

from modak_deploy.errors import TargetError
from modak_deploy.transport.base import Completed, check_paths
from modak_deploy.transport.local import decode

Parts = list[tuple[str, str]]


def _as_sent(text: str) -> str:
    """Return text as a transport has it: what arrives is bytes."""
    return decode(text.encode("utf-8", "surrogateescape" if _is_bytes(text) else "surrogatepass"))


def _is_bytes(text: str) -> bool:
    return not any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in text)


class Scripted:
    """A transport without a target: ``answers`` maps a word of a step's script to the parts of its answer."""

    def __init__(self, answers: dict[str, Callable[[], Parts]], *, stderr: str = "", code: int = 0) -> None:
        self._answers = answers
        self._stderr = stderr
        self._code = code
        self.trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.trips += 1
        assert self.trips < 200, "a loop: the target was asked 200 times"
        found = re.match(r"boundary=(\S+)", command)
        assert found is not None
        parts = next((make() for word, make in self._answers.items() if word in command), [])
        out = io.StringIO()
        for name, text in [*parts, ("end", "")]:
            out.write(f"\n{found[1]} {name}\n{text}")
        return Completed(self._code, _as_sent(out.getvalue()), _as_sent(self._stderr))

    def put(self, local: Path, remote: str) -> None:
        check_paths(local, remote)

    def fetch(self, remote: str, local: Path) -> None:
        check_paths(remote, local)
        raise TargetError("file not found")
