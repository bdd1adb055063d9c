"""The same files natively and in containers of every kind."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.errors import InputError, TargetError
from modak_deploy.evidence.driver.runs import HERE

KINDS = (
    "native", "sif-gzip", "sif-zstd", "sif-lz4", "sif-none", "sandbox", "podman", "podman-rootfs", "charliecloud",
)  # fmt: skip
SQUASHFS: Mapping[str, str] = {
    "sif-gzip": "-comp gzip",
    "sif-zstd": "-comp zstd",
    "sif-lz4": "-comp lz4",
    "sif-none": "-noI -noD -noF -noX",
}
"""Arguments of mksquashfs(1)."""
IMAGE = "localhost/modak-study"
MOUNT = "/mnt/0"
"""Where the run's folder is shown in the folder of all files: ch-run makes no mount points, podman would leave them."""
COPIES = "podman: its storage driver vfs copies the whole image for each run, and its times include that copy"
_NO_COPIES = "use its driver overlay (docs/benchmark.md), or --kind podman-rootfs, which copies nothing"
_ASK = """
import json, os, sys, sysconfig
paths = [sys.executable, os.path.realpath(sys.executable), *sys.path, sys.prefix, sysconfig.get_path("stdlib")]
print(json.dumps([p for p in dict.fromkeys(paths) if os.path.exists(p)]))
"""
_ASK_VERSIONS = """
import importlib.metadata, json, sys
packages = {f"{each.metadata['Name']} {each.version}" for each in importlib.metadata.distributions()}
print(json.dumps([sys.version, *sorted(packages)]))
"""
_IN_BASE = ("/", "/usr", "/usr/local")


@dataclass(frozen=True)
class Packed:
    """A way to run the workload."""

    kind: str
    before: Sequence[str]
    """Words before the command."""
    size: int | None
    """Bytes of the image file."""
    notes: Sequence[str] = ()
    """What sets its times apart from those of a usual start, as sentences of a note."""


def outside(kind: str, python: Path) -> str | None:
    """Return what is wrong with the times of a kind where the environment lies in a folder that the machine shows.

    Apptainer mounts the user's home, /tmp and /var/tmp over what the image has there (1.3, apptainer.conf).
    """
    shown = [Path("/tmp")]  # noqa: S108  compared with, and not written to
    if kind == "sandbox" or kind.startswith("sif-"):
        shown += [Path("/var/tmp"), Path.home()]  # noqa: S108
    elif kind != "podman-rootfs":
        return None
    folder = next((folder for folder in shown if python.is_relative_to(folder)), None)
    return None if folder is None else f"{kind}: {folder} is the machine's, so that {python} is not read from the image"


def apptainer() -> str | None:
    """Return the program that runs SIF files here."""
    return shutil.which("apptainer") or shutil.which("singularity")


def lacking(kind: str) -> str | None:
    """Return what this machine lacks for a kind, as a clause; None where it has all."""
    needs = {"podman": "podman", "podman-rootfs": "podman", "charliecloud": "ch-run", "native": "sh"}
    if kind in needs:
        return None if shutil.which(needs[kind]) else f"{needs[kind]} is not installed"
    if apptainer() is None:
        return "neither apptainer nor singularity is installed"
    return None if kind == "sandbox" or shutil.which("mksquashfs") else "mksquashfs is not installed"


def make_tree(base: Path, python: Path, work: Path) -> Path:
    """Return the folder of all files: the base system with the Python environment at the same paths as outside."""
    tree, done = work / "tree", work / "tree.complete"
    environment = _closure(python)
    stamp = _stamp(base, python, environment)
    if done.is_file() and done.read_text() == stamp:
        return tree
    done.unlink(missing_ok=True)
    _remove(tree)
    for image in work.glob("sif-*.sif"):  # of the tree before
        image.unlink()
    tree.mkdir(parents=True)
    if base.is_dir():
        _run(["cp", "-a", "--no-preserve=ownership", f"{base}/.", str(tree)], "the base system cannot be copied")
    else:
        command = ["tar", "-xf", str(base), "-C", str(tree), "--no-same-owner", "--exclude=./dev/*"]
        _run(command, "the base system cannot be unpacked")
    try:
        _copy(environment, tree)
    except (OSError, shutil.Error) as error:
        raise InputError(f"--python: its files cannot be copied: {str(error)[:300]}") from None
    for name in ("0", "1"):
        (tree / "mnt" / name).mkdir(parents=True, exist_ok=True)
    done.write_text(stamp)
    return tree


def _stamp(base: Path, python: Path, environment: Sequence[Path]) -> str:
    """Return what changes with the files of a tree: names and times of the base system, and of the environment's parts.

    The folder of packages changes when one is installed or removed.
    """
    parts = [base, *sorted(environment)]
    return f"{python}\n" + "".join(f"{path} {path.stat().st_mtime_ns}\n" for path in parts if path.exists())


def _copy(paths: Sequence[Path], tree: Path) -> None:
    """Copy files and folders to the same paths below the tree."""
    folders = [path for path in paths if path.is_dir()]
    outermost = [path for path in folders if not any(other in path.parents for other in folders)]
    # What lies in a folder comes with it: a virtual environment is named besides its packages and its program.
    for path in [*outermost, *(path for path in paths if path not in folders)]:
        inside = tree / str(path).lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        if not inside.parent.resolve().is_relative_to(tree.resolve()):  # a base system with absolute links
            raise InputError(f"--base: the link at /{inside.parent.relative_to(tree)} leads out of the base system")
        if path.is_dir():
            shutil.copytree(path, inside, symlinks=True, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        elif not os.path.lexists(inside):
            shutil.copy2(path, inside)  # a link's content: what it leads to may lie elsewhere


def versions(python: Path) -> list[str]:
    """Return the version of a Python and those of the packages that it has."""
    return _answer(python, _ASK_VERSIONS)


def _answer(python: Path, code: str) -> list[str]:
    """Return what a Python answers, without the user's own settings."""
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"--python: {python} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise InputError(f"--python: {python} cannot be run: {done.stderr.strip()[-200:]}")
    answer: list[str] = json.loads(done.stdout)
    return answer


def _closure(python: Path) -> list[Path]:
    """Return the files and folders of a Python environment: program, standard library, packages, shared libraries."""
    paths = [Path(path) for path in _answer(python, _ASK) if path not in _IN_BASE]
    links = [path for path in paths if path.is_symlink()]
    while links:  # python -> python3 -> /usr/bin/python3: every one on the way
        link = links.pop()
        aim = Path(os.path.normpath(link.parent / link.readlink()))
        if aim not in paths:
            paths.append(aim)
            links += [aim] if aim.is_symlink() else []
    programs = [str(path.resolve()) for path in paths if path.is_file()]
    modules = [str(library) for path in paths if path.is_dir() for library in (path / "lib-dynload").glob("*.so")]
    return [*paths, *_libraries([*programs, *modules])]


def _libraries(files: Sequence[str]) -> Iterator[Path]:
    """Yield the shared libraries that files need, as ldd(1) finds them here."""
    done = subprocess.run(["ldd", *files], capture_output=True, text=True)
    library = (line.split("=>")[1].split()[0] for line in done.stdout.splitlines() if "=> /" in line)
    for path in dict.fromkeys(library):
        yield Path(path)


def pack(kind: str, tree: Path, work: Path, say: Callable[[str], None]) -> Packed:
    """Make the image of one kind where it is not there yet, and return how it is run."""
    if kind == "native":
        return Packed(kind, [], None)
    if kind in ("podman", "podman-rootfs"):
        return _podman(kind, tree, say)
    if kind == "charliecloud":
        return Packed(kind, ["ch-run", f"--bind={HERE}:{MOUNT}", f"--cd={MOUNT}/work", str(tree), "--"], None)
    image = tree if kind == "sandbox" else work / f"{kind}.sif"
    if kind != "sandbox" and not image.is_file():
        say(f"packing {image.name}")
        part = work / f"{kind}.part.sif"
        part.unlink(missing_ok=True)
        arguments = f"--mksquashfs-args={SQUASHFS[kind]}"
        _run([str(apptainer()), "build", "--force", arguments, str(part), str(tree)], f"{image.name} cannot be made")
        part.replace(image)
    command = [str(apptainer()), "exec", "--cleanenv", f"--bind={HERE}", f"--pwd={HERE}/work", str(image)]
    return Packed(kind, command, image.stat().st_size if image.is_file() else None)


def _podman(kind: str, tree: Path, say: Callable[[str], None]) -> Packed:
    # Asked even where it does not matter: the first podman of a user leaves a process behind, which no run is to make.
    driver = _storage_driver()
    # As for jobs: the limits of this process, and files of any label.
    command = ["podman", "run", "--rm", "--network=host", "--ulimit=host", "--security-opt=label=disable"]
    if kind == "podman-rootfs":
        # As Apptainer and ch-run show a folder. podman would begin a tmpfs with a copy of what the folder has there.
        command += ["--read-only", "--read-only-tmpfs=false", "--volume=/tmp:/tmp", f"--volume={HERE}:{MOUNT}"]
        return Packed(kind, [*command, f"--workdir={MOUNT}/work", "--rootfs", str(tree)], None)
    if driver == "vfs":
        say(f"{COPIES}; {_NO_COPIES}")
    image = _import(tree, say)
    command += ["--pull=never", f"--volume={HERE}:{HERE}", f"--workdir={HERE}/work", image]
    return Packed(kind, command, None, [COPIES] if driver == "vfs" else [])


def _storage_driver() -> str:
    """Return the name of podman's storage driver, such as ``overlay``."""
    command = ["podman", "info", "--format", "{{.Store.GraphDriverName}}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise TargetError(
            f"podman does not work here: {done.stderr.strip()[-300:]}", hint="leave it out: name the others with --kind"
        )
    return done.stdout.strip()


def _import(tree: Path, say: Callable[[str], None]) -> str:
    """Return the name of the image that podman has of the tree."""
    stamp = tree.with_name("tree.complete")
    tag = hashlib.sha256(f"{tree}\n{stamp.read_text()}{stamp.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    image = f"{IMAGE}:{tag}"
    if subprocess.run(["podman", "image", "exists", image], capture_output=True).returncode == 0:
        return image
    say(f"importing {image}")
    with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as archive:
        done = subprocess.run(["podman", "import", "-"], stdin=archive.stdout, capture_output=True, text=True)
    number = (done.stdout.split() or [""])[-1]
    if done.returncode or not number:
        raise TargetError(f"podman cannot import the image: {done.stderr.strip()[-300:]}")
    if archive.returncode:  # podman takes an archive that is cut short
        subprocess.run(["podman", "rmi", number], capture_output=True)
        raise TargetError(f"{tree} cannot be packed: tar ended with exit code {archive.returncode}")
    _run(["podman", "tag", number, image], "podman cannot name the image")  # only now a later study finds it
    return image


def _remove(tree: Path) -> None:
    if tree.exists():
        _run(["rm", "-rf", "--", str(tree)], "an earlier tree cannot be removed")


def _run(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise TargetError(f"{problem}: {(done.stderr or done.stdout).strip()[-300:]}")
