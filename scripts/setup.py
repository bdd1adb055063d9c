"""Make .venv: the wheel, built from this checkout, with the extras that are asked for. Needs only Python and venv.

    setup.py digits test

A second run does nothing unless pyproject.toml or a source has changed; when only sources have, only the wheel is
made and installed anew.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
VENV = TOP / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "modak-setup.json"
LOGS = TOP / ".build" / "logs"
DIST = TOP / ".build" / "dist"
FILES_OF_THE_WHEEL = ("pyproject.toml", "README.md", "LICENSE", "galaxy.yml")
# xOpera's own pins cannot be built today, so what it really needs is named here (pkg_resources of setuptools, too; from
# 80.9 on it prints a warning into xOpera's output).
OPERA = (["--no-deps", "opera==0.7.0", "opera-tosca-parser>=0.2.2"], ["shtab>=1.7", "setuptools<80.9"])


def project() -> dict[str, object]:
    return tomllib.loads((TOP / "pyproject.toml").read_text())


def sources() -> Iterator[Path]:
    """Yield the files that the wheel is made of."""
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]
    yield from (TOP / name for name in FILES_OF_THE_WHEEL)
    for folder in wheel["only-include"]:
        for path in sorted((TOP / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(f"{path.relative_to(TOP)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digest_of_dependencies(extras: list[str]) -> str:
    about = project()["project"]
    wanted = [about["dependencies"], about["optional-dependencies"], extras, OPERA if "test" in extras else None]
    return hashlib.sha256(json.dumps([wanted, sys.version_info[:2], str(VENV)]).encode()).hexdigest()


def stamp() -> dict[str, object]:
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


class Steps:
    """Runs commands one after the other, shows which one and for how long, and keeps their output in a log."""

    def __init__(self, total: int) -> None:
        self.total, self.number, self.start = total, 0, time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)

    def run(self, what: str, *commands: list[str]) -> None:
        self.number += 1
        log = LOGS / f"setup-{self.number}.log"
        head = f"[{self.number}/{self.total}] {what}"
        began = time.monotonic()
        with log.open("wb") as output:
            for command in commands:
                process = subprocess.Popen(command, cwd=TOP, stdout=output, stderr=subprocess.STDOUT)
                shown = began
                while process.poll() is None:
                    time.sleep(0.1)
                    if time.monotonic() - shown >= (1 if sys.stdout.isatty() else 15):
                        shown = time.monotonic()
                        self._progress(f"{head}: {last_line(log)}", shown - began)
                if process.returncode:
                    self._fail(what, command, log)
        if sys.stdout.isatty():
            print("\r\033[K", end="")
        print(f"{head}: {time.monotonic() - began:.0f} s", flush=True)

    def _progress(self, text: str, seconds: float) -> None:
        if sys.stdout.isatty():
            width = os.get_terminal_size().columns
            print(f"\r\033[K{text[: width - 8]} {seconds:.0f} s", end="", flush=True)
        else:
            print(f"{text} ... {seconds:.0f} s", flush=True)

    def _fail(self, what: str, command: list[str], log: Path) -> None:
        print("\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
        sys.exit(f"Set-up failed: {what} ({' '.join(command[:4])} ...); the whole output is in {log}.")


def last_line(log: Path) -> str:
    """Return the last thing that pip said it is at, shortened."""
    lines = log.read_text(errors="replace").replace("\r", "\n").splitlines()
    telling = [line.strip() for line in lines if line.lstrip().startswith(("Collecting", "Downloading", "Installing"))]
    return telling[-1][:60] if telling else "..."


def works(python: Path) -> bool:
    """Tell whether this Python runs and has pip, which an environment that was moved or half made does not."""
    return (
        python.exists()
        and subprocess.run([python, "-c", "import pip"], check=False, capture_output=True).returncode == 0
    )


def main(asked: list[str]) -> None:
    known = stamp() if works(PYTHON) else {}
    extras = sorted({*asked, *known.get("extras", [])})
    wanted = {"extras": extras, "dependencies": digest_of_dependencies(extras), "sources": digest_of_sources()}
    if known == wanted:
        return
    STAMP.unlink(missing_ok=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    dependencies = known.get("dependencies") != wanted["dependencies"]
    steps = Steps(2 + dependencies * (2 + ("test" in extras)))
    if dependencies:
        print(f"Setting up {VENV} by {sys.executable}: modak-deploy[{','.join(extras)}]", flush=True)
        backend = [*pip, "install", *project()["build-system"]["requires"]]
        steps.run("virtual environment", *([] if known else [new_environment()]), backend)
    wheel = build_wheel(steps, pip)
    if dependencies:
        steps.run("modak and what it depends on", [*pip, "install", f"{wheel}[{','.join(extras)}]"])
        if "test" in extras:
            steps.run("xOpera", *([*pip, "install", *part] for part in OPERA))
    # An environment from before the distribution was renamed holds the same files under its old name.
    old = [*pip, "uninstall", "--yes", "--quiet", "modak"]
    steps.run("the wheel of this checkout", old, [*pip, "install", "--no-deps", "--force-reinstall", str(wheel)])
    STAMP.write_text(json.dumps(wanted))
    print(f"Set-up took {time.monotonic() - steps.start:.0f} s.", flush=True)


def new_environment() -> list[str]:
    return [sys.executable, "-m", "venv", "--clear", str(VENV)]


def build_wheel(steps: Steps, pip: list[str]) -> Path:
    DIST.mkdir(parents=True, exist_ok=True)
    for old in DIST.glob("*.whl"):
        old.unlink()
    steps.run("build", [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(DIST), str(TOP)])
    return next(DIST.glob("modak_deploy-*.whl"))


if __name__ == "__main__":
    main(sys.argv[1:])
