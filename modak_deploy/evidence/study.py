"""The study of Jordan et al. (HPEC 2019) as one command: the same workload natively and in containers."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path

from modak_deploy.discovery.hardware import parse_colons
from modak_deploy.errors import InputError, JobError
from modak_deploy.evidence.bundle import archive
from modak_deploy.evidence.driver.machine import processors
from modak_deploy.evidence.driver.rounds import TASKS
from modak_deploy.evidence.finished import Description, Finished, read_finished, write_description
from modak_deploy.evidence.packing import KINDS, Packed, lacking, make_tree, outside, pack, versions
from modak_deploy.evidence.protocol import Protocol, settings
from modak_deploy.performance.recording import FIRST, LATER
from modak_deploy.shell import join
from modak_deploy.util.files import write_atomically
from modak_deploy.util.text import nearest, plural

NETWORKS = {"snn": 50, "lnn": 300}
"""The networks, and the epochs of their training in the study."""
PHASES = ("training", "inference")
INFERRED = 145
"""Images that the study classifies."""
_PROGRAM = "study_network.py"


@dataclass(frozen=True)
class Study:
    """What is measured."""

    networks: Sequence[str] = tuple(NETWORKS)
    phases: Sequence[str] = PHASES
    kinds: Sequence[str] = KINDS
    runs: int = 100
    images: int = 1526
    batch: int = 301
    epochs: int | None = None
    """The study's own where None."""
    size: int = 256
    python: Path = Path(sys.executable)
    base: Path | None = None
    """A base system; needed for every kind but ``native``."""
    script: Path | None = None
    """Another program with the same options."""
    others: float = 0.1
    backend: str = "tensorflow"


def check_study(study: Study) -> None:
    """Raise InputError for what no study is."""
    for option, values, valid in (
        ("--network", study.networks, tuple(NETWORKS)),
        ("--phase", study.phases, PHASES),
        ("--kind", study.kinds, KINDS),
    ):
        for value in values:
            if value not in valid:
                raise InputError(f"{option}: '{value}' is not one of {', '.join(valid)}{nearest(value, valid)}")
    if "native" not in study.kinds:
        raise InputError("--kind: native is required; the others are compared with it")
    if study.base is None and len(study.kinds) > 1:
        raise InputError("--base is required for containers: a tar file or a folder with a base system")
    if study.base is not None and not study.base.exists():
        raise InputError(f"--base: {study.base} not found")


def carry_out(study: Study, results: Path, work: Path, say: Callable[[str], None]) -> list[Finished]:
    """Make the images, run every network and phase, and return what was measured.

    A second call goes on where the first one ended.
    """
    check_study(study)
    able = []
    # The driver compares with the first one.
    for kind in sorted(dict.fromkeys(study.kinds), key=lambda kind: kind != "native"):
        if why := lacking(kind):
            say(f"{kind} is left out: {why}")
        else:
            able.append(kind)
    ways = [Packed("native", [], None)]
    if study.base is not None and len(able) > 1:
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{work} cannot be made: {error.strerror}") from None
        say(f"making the folder of all files, {work / 'tree'}")
        tree = make_tree(study.base.absolute(), study.python.absolute(), work.absolute())
        ways = [_noted(pack(kind, tree, work.absolute(), say), study.python.absolute(), say) for kind in able]
    finished = []
    for network in study.networks:
        for phase in study.phases:
            folder = results / f"{network}-{phase}"
            say(f"{network} {phase}: {plural(study.runs, 'run')} of {', '.join(way.kind for way in ways)}")
            finished.append(_measure(study, ways, network, phase, folder.absolute(), say))
    return finished


def _noted(way: Packed, python: Path, say: Callable[[str], None]) -> Packed:
    note = outside(way.kind, python)
    if note is None:
        return way
    say(f"{note}; name one elsewhere with --python")
    return replace(way, notes=[*way.notes, note])


def _measure(
    study: Study,
    ways: Sequence[Packed],
    network: str,
    phase: str,
    folder: Path,
    say: Callable[[str], None],
) -> Finished:
    epochs = study.epochs if study.epochs is not None else NETWORKS[network]
    images, epochs = (study.images, epochs) if phase == "training" else (min(study.images, INFERRED), 1)
    options = {"network": network, "phase": phase, "images": images, "batch": study.batch, "epochs": epochs}
    arguments = [f"--{name}={value}" for name, value in {**options, "size": study.size}.items()]
    # The same variables natively and inside, by env(1): each runtime hands on others.
    variables = [f"KERAS_BACKEND={study.backend}", "TF_CPP_MIN_LOG_LEVEL=3", "PYTHONDONTWRITEBYTECODE=1"]
    program = ["env", "-u", "PYTHONPATH", *variables, str(study.python.absolute()), _PROGRAM, *arguments]
    entries: list[dict[str, object]] = [
        {"name": way.kind, "command": join([*way.before, *program]), "environment": {}, "launch": None} for way in ways
    ]
    # The study reports fixed numbers of runs; no interval ends it.
    protocol = Protocol(least=study.runs, most=study.runs, width=1.0, seconds=10**7, others=study.others)
    compared = {"outputs": ["result.json"], "metrics": "metrics.json"}
    origin = _origin(study, len(ways) > 1)
    driver_settings = settings(protocol, entries, **compared, first_key=FIRST, later_key=LATER, origin=origin)
    _stage(study, folder, driver_settings)
    _drive(folder, say)
    notes = [note for way in ways for note in way.notes]
    title = f"{network.upper()} {phase}"
    write_description(folder, Description(title=title, default="native", protocol=protocol, notes=notes))
    return read_finished(folder)


def _origin(study: Study, packed: bool) -> dict[str, object]:
    """Return what the times depend on beside the options, so that an interrupted study does not go on with others.

    Files that a Python environment gains by being used do not count, as its versions do.
    """
    with as_file(files("modak_deploy.evidence").joinpath("data", _PROGRAM)) as shipped:
        try:
            program = (study.script or shipped).read_bytes()
            base = study.base.stat() if packed and study.base is not None else None
            processor = parse_colons(Path("/proc/cpuinfo").read_text(errors="replace")).get("model name")
        except OSError as error:
            raise InputError(f"{error.filename}: the study cannot be prepared: {error.strerror}") from None
    return {
        "program": hashlib.sha256(program).hexdigest(),
        "versions": versions(study.python),
        "base": None if base is None else [str(study.base), base.st_size, base.st_mtime_ns],
        "machine": [processor, processors()],
    }


def _drive(folder: Path, say: Callable[[str], None]) -> None:
    """Let the driver measure; JobError where it ends badly. It does not outlive this process."""
    command = [sys.executable, "driver.pyz", "settings.json"]
    # This process may be the task of an array itself, which the study is not.
    environment = {name: value for name, value in os.environ.items() if name not in TASKS}
    last = ""
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as process:  # fmt: skip
        try:
            for line in process.stdout or ():
                last = line.rstrip("\n")
                say(last)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        raise JobError(f"{folder.name}: {last or 'the driver ended without a word'}")


def _stage(study: Study, folder: Path, driver_settings: str) -> None:
    """Write what the driver needs; repeats of another study are not gone on with."""
    kept = folder / "settings.json"
    if kept.is_file() and kept.read_text() != driver_settings:
        raise InputError(
            f"{folder}: it holds another study, of other options, software or hardware, or of another version of "
            "modak; remove it, or name another folder with --results"
        )
    try:
        (folder / "app").mkdir(parents=True, exist_ok=True)
        (folder / "driver.pyz").write_bytes(archive())
        with as_file(files("modak_deploy.evidence").joinpath("data", _PROGRAM)) as shipped:
            shutil.copyfile(study.script or shipped, folder / "app" / _PROGRAM)
        write_atomically(kept, driver_settings)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: the study cannot be prepared: {error.strerror}") from None
