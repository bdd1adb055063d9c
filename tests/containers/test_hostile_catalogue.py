"""What tests/data/images/injections.yaml holds, given to the real builders: nothing of it runs on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from containers import Containers, UserTransport
from injections import ATTACKS, LITERAL, Attack, documents, unchecked
from modak_deploy.errors import InputError, JobError
from modak_deploy.images.build import make_build, run_build
from modak_deploy.images.define import Definition, define
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.control import Jobs
from modak_deploy.model.target import Target


@pytest.fixture
def sentinel(parts: Containers) -> Path:
    return parts.folder("sentinel") / "run"


@pytest.fixture
def origin(parts: Containers) -> str:
    return f"docker://{parts.registry}/library/debian:12"


def test_a_section_in_a_label_would_run_on_this_machine(parts: Containers, sentinel: Path, sif: Path) -> None:
    """What the other tests prevent, so that they are known to look for the right thing."""
    text = f"Bootstrap: localimage\nFrom: {sif}\n%labels\n    site x\n%setup\ntouch {sentinel}\n"
    parts.run("sh", "-c", 'printf "%s" "$1" >raw.def && apptainer build --fakeroot --force raw.sif raw.def', "sh", text)
    assert sentinel.exists()


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_no_attack_reaches_the_builder_or_it_does_nothing_there(
    attack: Attack, origin: str, sentinel: Path, target: Target, jobs: Jobs, tmp_path: Path
) -> None:
    entry, recipes = unchecked(*documents(origin, str(sentinel), attack))
    try:
        definition = define(entry, {}, recipes)
    except InputError:
        return
    try:
        run_build(make_build(definition, target, tmp_path / "context", compression="lz4"), jobs, tmp_path / "logs")
    except JobError as error:
        print(error)
    assert not sentinel.exists()


@pytest.fixture
def expected(sentinel: Path) -> list[str]:
    return [text.replace("SENTINEL", str(sentinel)) for text in LITERAL]


@pytest.fixture
def definition(origin: str, expected: list[str]) -> Definition:
    """An image with every text that is allowed as a label and as a variable."""
    entry, recipe = documents(origin, "")
    for key in ("framework", "version", "accelerator", "toolkit", "packages"):
        entry.pop(key)
    entry["labels"] = {f"l{number}": text for number, text in enumerate(expected)}
    entry["summary"] = expected[1]
    recipe["packages"] = ["python3-minimal"]
    recipe["environment"] = {f"V{number}": text for number, text in enumerate(expected)}
    model, recipes = unchecked(entry, recipe)
    return define(model, {}, recipes)


def compare(labels: dict[str, Any], environment: str, expected: list[str], sentinel: Path) -> None:
    variables = dict(item.split("=", 1) for item in environment.split("\0") if "=" in item)
    numbers = range(len(expected))
    assert [labels.get(f"l{number}") for number in numbers] == expected
    assert [variables.get(f"V{number}") for number in numbers] == expected
    assert not sentinel.exists()


def test_apptainer_takes_every_allowed_text_as_it_is(
    parts: Containers, definition: Definition, target: Target, jobs: Jobs, workspace: Path, sentinel: Path,
    expected: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    build = make_build(definition, target, tmp_path / "context", compression="lz4")
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    found = ImageStore(UserTransport(parts), str(workspace / "images")).check(build.image, "apptainer")
    compare(found.labels, parts.run("apptainer", "exec", "--cleanenv", found.path, "env", "-0"), expected, sentinel)


def test_podman_takes_every_allowed_text_as_it_is(
    parts: Containers, definition: Definition, target: Target, jobs: Jobs, workspace: Path, sentinel: Path,
    expected: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    build = make_build(definition, target, tmp_path / "context", runtime="podman")
    run_build(build, jobs, tmp_path / "logs", timeout=600)
    found = ImageStore(UserTransport(parts), str(workspace / "images")).check(build.image, "podman")
    inside = parts.run("podman", "run", "--rm", "--pull=never", found.path, "env", "-0")
    compare(found.labels, inside, expected, sentinel)


def test_ch_image_reads_the_same_containerfile_without_running_anything_here(
    parts: Containers, definition: Definition, sentinel: Path
) -> None:
    folder = parts.folder("ch-context")
    for name, text in definition.files.items():
        (folder / name).write_text(text)
    text = definition.texts["containerfile"].replace(f"{parts.registry}/library/debian:12", "debian:12")
    # ch-image 0.31 ends in an AssertionError at a value whose last character is an escaped backslash (unescape()).
    text = text.replace("backslash \\\\", "backslash")
    (folder / "Dockerfile").write_text(text)
    parts.own(folder)
    settings = ["env", f"CH_IMAGE_STORAGE={folder}/store", "CH_IMAGE_CACHE=disabled"]
    parts.run(*settings, "ch-image", "import", f"{parts.tools}/debian12.tar", "debian:12")
    build = ["ch-image", "build", "--force", "-t", "literal", "-f", f"{folder}/Dockerfile", str(folder)]
    parts.run(*settings, *build)
    metadata = json.loads((folder / "store/img/literal/ch/metadata.json").read_text())  # it drops labels
    assert set(metadata["env"]) == {f"V{number}" for number in range(len(LITERAL))}
    assert not sentinel.exists()
