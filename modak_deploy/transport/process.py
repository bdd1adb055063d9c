"""A program on this machine with bounded output and a time limit."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, cast

from modak_deploy.errors import TargetError

MAX_STDOUT = 512 * 1024 * 1024
"""Bytes of one answer: the largest, results of 32 MiB as hexadecimal numbers with blanks, takes about 100 MiB."""
MAX_STDERR = 1024 * 1024
_BLOCK = 65536
_GRACE = 5.0
"""Seconds for the readers to see the end of the output of a program that was killed."""


class TimedOut(Exception):
    """The program did not end in time; it has been killed."""


@dataclass
class _Output:
    """What is read of one stream, up to ``limit`` bytes; ``sink`` takes it in place of the memory."""

    stream: IO[bytes]
    limit: int
    sink: Callable[[bytes], bool] | None = None
    blocks: list[bytes] = field(default_factory=list)
    size: int = 0
    exceeded: bool = False

    def read(self, process: "subprocess.Popen[bytes]") -> None:
        with suppress(OSError, ValueError):  # it was closed because the program was killed
            while block := os.read(self.stream.fileno(), _BLOCK):
                if self.sink is not None:
                    if not self.sink(block):
                        kill(process)
                        return
                    continue
                self.size += len(block)
                if self.size > self.limit:
                    self.exceeded = True
                    kill(process)
                    return
                self.blocks.append(block)

    def whole(self, name: str) -> bytes:
        """Return all of it; TargetError when it was more than it may be."""
        if self.exceeded:
            raise TargetError(f"more than {self.limit // 1024**2} MiB came by {name}, and the rest was not read")
        return b"".join(self.blocks)


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    stdin: bytes | IO[bytes] | None = None,
    timeout: float | None = None,
    max_stdout: int = MAX_STDOUT,
    sink: Callable[[bytes], bool] | None = None,
    environment: Mapping[str, str] | None = None,
    interrupted: bool = False,
) -> tuple[int, bytes, bytes]:
    """Run a program in a session of its own: Ctrl-C ends modak, and the program where it is to be ``interrupted`` too.

    ``sink`` takes its standard output block by block, and returns False where the program is to be ended. Return its
    exit code and both outputs. OSError when it cannot be started, TimedOut when it did not end in time, TargetError
    when it wrote more than it may.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE if isinstance(stdin, bytes) else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )
    out = _Output(cast(IO[bytes], process.stdout), max_stdout, sink)
    err = _Output(cast(IO[bytes], process.stderr), MAX_STDERR)
    threads = _threads(process, out, err, stdin)
    try:
        _wait(process, list(threads.values()), timeout)
    except TimedOut:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        raise
    except BaseException:
        if interrupted:
            kill(process)
        raise
    finally:
        for stream, thread in threads.items():
            if not thread.is_alive():  # what has left the process group may hold the other end
                with suppress(OSError):
                    stream.close()
    return process.returncode, out.whole("standard output"), err.whole("standard error")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a program that ``run`` has started, with its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _threads(
    process: "subprocess.Popen[bytes]", out: _Output, err: _Output, stdin: bytes | IO[bytes] | None
) -> dict[IO[bytes], threading.Thread]:
    """Start what reads and writes the program's streams."""
    threads = {
        stream: threading.Thread(target=work, args=arguments, daemon=True)
        for stream, work, arguments in (
            (out.stream, out.read, (process,)),
            (err.stream, err.read, (process,)),
            (process.stdin, _feed, (process.stdin, stdin)),
        )
        if stream is not None
    }
    for thread in threads.values():
        thread.start()
    return threads


def _wait(process: "subprocess.Popen[bytes]", threads: Sequence[threading.Thread], timeout: float | None) -> None:
    """Wait for the program and for the end of its output, which what it has started may still write."""
    deadline = None if timeout is None else time.monotonic() + timeout
    for thread in threads:
        thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            kill(process)
            raise TimedOut
    try:
        process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        kill(process)
        raise TimedOut from None


def _feed(stream: IO[bytes], data: bytes) -> None:
    with suppress(OSError, ValueError):  # The program may end without reading all of it: its exit code tells the rest.
        stream.write(data)
    with suppress(OSError, ValueError):
        stream.close()
