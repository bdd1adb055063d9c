from pathlib import Path

import pytest
import yaml

from modak_deploy.containers.location import argument, folder, pin
from modak_deploy.errors import InputError
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse
from modak_deploy.model.target import Target

TABLE = yaml.safe_load(Path("tests/data/images/references.yaml").read_text())
DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "f" * 64


@pytest.mark.parametrize("row", TABLE["good"], ids=lambda row: row["text"])
def test_references_are_read(row: dict[str, str]) -> None:
    reference = parse(row["text"])
    assert str(reference) == row["full"]
    assert reference.slug == row["slug"]
    assert str(parse(str(reference))) == str(reference)


@pytest.mark.parametrize("row", TABLE["bad"], ids=lambda row: repr(row["text"]))
def test_bad_references_are_refused_in_one_sentence(row: dict[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        parse(row["text"])
    assert row["says"] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reference_is_pinned_by_the_digest_beside_it_or_inside_it() -> None:
    assert str(pin(Image(reference="docker://a/b:1", digest=DIGEST))) == f"docker://docker.io/a/b@{DIGEST}"
    assert str(pin(Image(reference=f"docker://a/b@{DIGEST}"))) == f"docker://docker.io/a/b@{DIGEST}"
    with pytest.raises(InputError, match="not pinned"):
        pin(Image(reference="docker://a/b:1"))
    with pytest.raises(InputError, match="give one of them"):
        pin(Image(reference=f"docker://a/b@{OTHER}", digest=DIGEST))


def test_images_of_different_owners_and_contents_have_different_files() -> None:
    names = {
        argument(Image(reference=reference, digest=digest), "apptainer", "/images")
        for reference in ("docker://a/app:1", "docker://b/app:1", "docker://a/app:2", "oras://r.example.org/a/app:1")
        for digest in (DIGEST, OTHER)
    }
    assert len(names) == 8
    assert all(name.startswith("/images/") and name.count(".sif") == 1 for name in names)


def test_each_runtime_names_the_image_in_its_own_way() -> None:
    hub = Image(reference="docker://a/app:1", digest=DIGEST)
    built = Image(reference="build://Mine-1", digest=DIGEST)
    file = Image(reference="/site/app.sif", digest=DIGEST)
    assert argument(hub, "apptainer", "/i") == "/i/a_app_1-0123456789abcdef.sif"
    assert argument(hub, "charliecloud", "/i") == "/i/a_app_1-0123456789abcdef.sqfs"
    assert argument(hub, "podman", "/i") == f"docker.io/a/app@{DIGEST}"
    assert argument(built, "singularity", "/i") == "/i/Mine-1-0123456789abcdef.sif"
    assert argument(built, "docker", "/i") == "localhost/modak/mine-1:0123456789abcdef"
    assert argument(file, "apptainer", "/i") == "/site/app.sif"
    with pytest.raises(InputError, match="podman does not support SIF files; use apptainer or singularity"):
        argument(file, "podman", "/i")
    with pytest.raises(InputError, match="runs no image"):
        argument(hub, "native", "/i")


def test_the_image_folder_lies_in_the_workspace_unless_the_target_names_one() -> None:
    assert folder(Target(name="t"), "/home/u/.modak") == "/home/u/.modak/images"
    assert folder(Target(name="t", images="/lustre/images/"), "/home/u/.modak") == "/lustre/images"
    assert folder(Target(name="t", images="shared"), "/home/u/.modak") == "/home/u/.modak/shared"
    with pytest.raises(InputError, match="absolute"):
        folder(Target(name="t", images="~/images"), "/home/u/.modak")
