"""Images built by real Apptainer and podman, as an ordinary user, from the shipped recipes."""

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from imagelocks import held, process_of
from modak_deploy.catalogue.recipe import Recipes
from modak_deploy.catalogue.recipefiles import DATA
from modak_deploy.errors import JobError, TargetError
from modak_deploy.images.build import Build, make_build, run_build
from modak_deploy.images.ensure import Images, Wish
from modak_deploy.images.pin import definition_for
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Silent, Timeouts
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.target import Polling, Target

PIP, SRC = "numexpr-2.14-pip-cpu", "numexpr-2.14-src-cpu"
WORK = """
import numexpr, sys
print(numexpr.__version__, float(numexpr.evaluate("2 * 21")), "site" if "/opt/modak/" in numexpr.__file__ else "?")
"""


@pytest.fixture(scope="session")
def store(parts: Containers, workspace: Path) -> ImageStore:
    return ImageStore(UserTransport(parts), str(workspace / "images"))


@pytest.fixture(scope="session")
def built(
    catalogue: Mapping[str, ImageEntry], target: Target, jobs: Jobs, tmp_path_factory: pytest.TempPathFactory
) -> Build:
    """The pip image, built."""
    folder = tmp_path_factory.mktemp("pip-image")
    build = make_build(definition_for(PIP, catalogue), target, folder / "context", compression="lz4")
    run_build(build, jobs, folder / "logs", timeout=600)
    return build


def test_an_image_of_wheels_is_built_and_holds_what_it_says(parts: Containers, built: Build, store: ImageStore) -> None:
    found = store.check(built.image, "apptainer")
    assert found.labels["modak.digest"] == built.image.digest
    assert found.labels["modak.framework.version"] == "2.14.1"
    assert found.labels["modak.source"] == "pip"
    assert found.labels["org.opencontainers.image.title"] == PIP
    assert parts.run("apptainer", "exec", "--cleanenv", found.path, "python3", "-c", WORK).split()[-3:] == [
        "2.14.1", "42.0", "site",
    ]  # fmt: skip
    assert "holds what it should" in parts.run("apptainer", "test", found.path)
    listed = parts.run("apptainer", "exec", found.path, "ls", "/opt")
    assert "modak-build" not in listed


def test_the_same_definition_is_never_built_twice(built: Build, jobs: Jobs, store: ImageStore, tmp_path: Path) -> None:
    path = Path(store.check(built.image, "apptainer").path)
    before = path.stat()
    result = run_build(built, jobs, tmp_path, timeout=120)
    assert result.state == "completed"
    assert (path.stat().st_ino, path.stat().st_mtime) == (before.st_ino, before.st_mtime)


def test_a_built_image_stays_while_a_job_needs_it(parts: Containers, built: Build, store: ImageStore) -> None:
    path = Path(store.check(built.image, "apptainer").path)
    run = parts.folder("run-in-built")
    (run / "state").mkdir()
    parts.own(run)
    store.hold(str(path), str(run))
    assert f"needed by {run}" in {row.reason for row in store.collect(0, dry=True) if row.file == path.name}
    with pytest.raises(TargetError, match=f"the image {path} is needed by the job in {run}: it stays"):
        store.remove(str(path), "apptainer")
    (run / "state" / "exit").touch()
    assert [row.removed for row in store.collect(0, dry=True) if row.file == path.name] == [True]


def test_an_image_compiled_for_a_processor_says_which_and_how(
    parts: Containers,
    catalogue: Mapping[str, ImageEntry],
    target: Target,
    jobs: Jobs,
    store: ImageStore,
    tmp_path: Path,
) -> None:
    definition = definition_for(SRC, catalogue, "x86_64_v3")
    build = make_build(definition, target, tmp_path / "context", compression="lz4")
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    found = store.check(build.image, "apptainer")
    assert found.labels["modak.source"] == "opt-build"
    assert found.labels["modak.microarchitecture"] == "x86_64_v3"
    assert found.labels["modak.flags"] == "-march=x86-64-v3 -mtune=generic"
    assert "2.14.1 42.0 site" in parts.run("apptainer", "exec", "--cleanenv", found.path, "python3", "-c", WORK)


def test_a_build_that_was_killed_goes_on_from_the_images_that_were_finished(
    parts: Containers, catalogue: Mapping[str, ImageEntry], target: Target, jobs: Jobs, store: ImageStore,
    built: Build, workspace: Path, tmp_path: Path,
) -> None:  # fmt: skip
    site = f"killed-{secrets.token_hex(4)}"  # an image that no run before has built
    entry = catalogue[PIP].model_copy(update={"labels": {"site": site}})
    images = {**catalogue, PIP: entry}
    build = make_build(definition_for(PIP, images), target, tmp_path / "context", compression="lz4")
    present = jobs.present(build.request, build.sources)
    log = Path(present.job.spec.output)
    deadline = time.monotonic() + 60
    while "building the image" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "debian12-cpu is there already" in log.read_text()
    (owner,) = held(workspace / "images")
    os.kill(process_of(owner), signal.SIGKILL)
    assert jobs.wait([present], timeout=60)[0].state != "completed"
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    assert store.check(build.image, "apptainer").labels["site"] == site


class Said(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def kill_all(leader: int) -> None:
    """Kill all processes of a session, and what they have started in others, at once."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
    doomed = {leader}
    while more := {pid for pid, parent in parents.items() if parent in doomed} - doomed:
        doomed |= more
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(pid, number)


def test_a_build_whose_job_was_killed_as_a_whole_is_started_anew_by_itself(
    parts: Containers, catalogue: Mapping[str, ImageEntry], target: Target, store: ImageStore,
    workspace: Path, tmp_path: Path,
) -> None:  # fmt: skip
    """Job script and all that it started die by SIGKILL, as when a node dies: nobody writes down an end."""
    (tmp_path / "build").mkdir()
    mark = f"once-{secrets.token_hex(4)}"
    (tmp_path / "build" / "slow.sh.j2").write_text(f"[ -e /mnt/{mark} ] || {{ : >/mnt/{mark}; sleep 600; }}\n")
    (tmp_path / "recipes.yaml").write_text("version: 1\nrecipes: [{entry: slow, build: slow}]\n")
    slow = ImageEntry(name="slow", source="base", base="debian12-cpu", distribution="debian12", python="3.11.2")
    said = Said()
    jobs = Jobs(UserTransport(parts), reporter=said)
    definition = definition_for("slow", {**catalogue, "slow": slow}, recipes=Recipes([DATA, tmp_path]))
    build = make_build(definition, target, tmp_path / "context", compression="lz4")
    present = jobs.present(build.request, build.sources)
    deadline = time.monotonic() + 600
    while not (workspace / "images" / ".cache" / mark).exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    kill_all(int(present.job.id.partition("-")[0]))
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    assert [text for text in said.notices if present.job.id in text and ("anew" in text or "again as" in text)]
    assert store.check(build.image, "apptainer").labels["modak.digest"] == build.image.digest
    assert not list(workspace.glob("runs/image-slow*"))


def test_an_image_that_six_want_at_once_is_built_and_all_get_it(parts: Containers, tmp_path: Path) -> None:
    (tmp_path / "recipes.yaml").write_text("version: 1\nrecipes: [{entry: quick, packages: [python3-minimal]}]\n")
    origin = f"docker://{parts.registry}/library/debian:12"
    quick = ImageEntry(name="quick", source="base", origin=origin, distribution="debian12", python="3.11.2")
    recipes = Recipes([DATA, tmp_path])
    folder = parts.folder("wanted-by-six")
    target = Target(name="here", workspace=str(folder), polling=Polling(first=0.5, maximum=1.0))

    def want(number: int) -> str:
        transport = UserTransport(parts)
        store, jobs = ImageStore(transport, f"{folder}/images"), Jobs(transport, timeouts=Timeouts(settle=2.0))
        images = Images(store, jobs, target, {"quick": quick}, recipes=recipes, logs=tmp_path / f"logs-{number}")
        return images.present(images.named("quick"), Wish("apptainer", "lz4", timeout=300)).path

    with ThreadPoolExecutor(6) as pool:
        (path,) = set(pool.map(want, range(6)))
    assert [str(left) for left in (folder / "images").glob("*.sif")] == [path]
    assert not [*held(folder / "images"), *(folder / "images" / ".work").iterdir()]
    assert not list(folder.glob("runs/*"))


def test_a_package_whose_hash_is_wrong_is_refused_and_named(
    catalogue: Mapping[str, ImageEntry], target: Target, jobs: Jobs, store: ImageStore, built: Build, tmp_path: Path
) -> None:
    entry = catalogue[PIP].model_copy(update={"labels": {"site": "forged"}})
    build = make_build(definition_for(PIP, {**catalogue, PIP: entry}), target, tmp_path / "context", compression="lz4")
    [wheel] = (tmp_path / "context").glob(f"{PIP}-*/pip/numexpr-*.whl")
    good = wheel.read_bytes()
    wheel.write_bytes(good[:-1] + b"\1")
    build = make_build(definition_for(PIP, {**catalogue, PIP: entry}), target, tmp_path / "context", compression="lz4")
    assert wheel.read_bytes() == good  # what does not fit its hash is fetched again
    wheel.write_bytes(good[:-1] + b"\1")
    build = _rehashed(build, wheel)
    with pytest.raises(JobError, match=rf"the image '{PIP}' was not built: .*") as caught:
        run_build(build, jobs, tmp_path / "logs", timeout=300)
    assert "HASH" in caught.value.args[0].upper()
    assert not list(Path(store.images).glob(f"*{build.image.digest.removeprefix('sha256:')[:16]}.sif"))


def _rehashed(build: Build, path: Path) -> Build:
    """Return the build with a file that was changed after it was made: only the image's own pip can notice."""
    import hashlib

    from modak_deploy.documents import LocalSource

    def again(item: LocalSource) -> LocalSource:
        if item.local != path:
            return item
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        return LocalSource(item.source.model_copy(update={"sha256": sha}), path)

    sources = [again(item) for item in build.sources]
    request = replace(build.request, sources=[item.source for item in sources], tag=f"modak-{secrets.token_hex(8)}")
    return Build(request, sources, build.image)


def test_podman_builds_the_same_definition(
    parts: Containers,
    catalogue: Mapping[str, ImageEntry],
    target: Target,
    jobs: Jobs,
    store: ImageStore,
    tmp_path: Path,
) -> None:
    build = make_build(definition_for("debian12-cpu", catalogue), target, tmp_path / "context", runtime="podman")
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    found = store.check(build.image, "podman")
    assert found.labels["modak.digest"] == build.image.digest
    assert "Python 3.11" in parts.run("podman", "run", "--rm", "--pull=never", found.path, "python3", "--version")
