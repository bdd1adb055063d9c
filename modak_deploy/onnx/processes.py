"""Processes that do the work on one model: what crashes, leaks or needs other packages is theirs alone."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from modak_deploy.errors import InputError
from modak_deploy.onnx.task import PROGRESS

Report = Callable[[str], None]
"""Takes a line on the progress."""
_TOP = Path(__file__).resolve().parents[2]
_TAIL = 15
"""Lines of a failed process that are repeated."""
_LINE = 64 * 1024
"""Characters of a line that are kept: a process may write one that does not end."""
_LATE = 124


def run_module(module: str, folder: Path, *, python: str | None, timeout: float, report: Report) -> str | None:
    """Run ``module``'s main with task.json and outcome.json of ``folder``; return how it ended, None where it was well.

    An exit status of 1 says that the outcome has an error.
    """
    process = _start(module, folder, python or sys.executable)
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(timeout, end)
    timer.start()
    tail: deque[str] = deque(maxlen=_TAIL)
    try:
        assert process.stdout is not None  # noqa: S101
        with (folder / "log").open("a") as log:
            for line in _lines(process.stdout):
                if line.startswith(PROGRESS):
                    report(line.removeprefix(PROGRESS).strip())
                    continue
                log.write(line)
                tail.append(line.rstrip()[:500])
        code = process.wait()
    except BaseException:
        _kill(process)
        raise
    finally:
        timer.cancel()
    if code in (0, 1) and not late.is_set():
        return None
    return f"{_end(_LATE if late.is_set() else code, timeout)}{_quoted(tail)}"


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a stream, each with its end; of a long one no more than its beginning."""
    is_rest = False
    while part := stream.readline(_LINE):
        is_end = part.endswith("\n")
        if not is_rest:
            yield part if is_end else f"{part}\n"
        is_rest = not is_end


def _start(module: str, folder: Path, python: str) -> subprocess.Popen[str]:
    # modak comes last on the path: the interpreter's own packages are the model's.
    start = f"import sys; sys.path.append({str(_TOP)!r}); from {module} import main; main(sys.argv[1:])"
    files = [str(folder / name) for name in ("task.json", "outcome.json")]
    try:
        return subprocess.Popen(
            [python, "-P", "-c", start, *files],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"python: {python}: cannot be run: {error.strerror}") from None


def _environment() -> dict[str, str]:
    """Return the environment: fixed seeds and one way of computing, no GPU unless one is named, no download."""
    return {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "HF_HUB_OFFLINE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # oneDNN's kernels add in an order that depends on the number of threads.
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _end(code: int, timeout: float) -> str:
    if code == _LATE:
        return f"took longer than {timeout:g} s and was ended"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit status {code}"


def _quoted(tail: Sequence[str]) -> str:
    return "".join(f"\n    {line}" for line in tail)
