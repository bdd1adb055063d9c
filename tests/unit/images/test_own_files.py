"""Image files of the user's own on the target."""

from pathlib import Path

import pytest

from modak_deploy.images.ensure import Images
from modak_deploy.images.store import ImageStore
from modak_deploy.model.target import Target
from modak_deploy.transport.local import LocalTransport


@pytest.mark.parametrize("folder", ["images", "images-of-mine"])
def test_a_file_of_the_user_s_is_there_without_a_record(tmp_path: Path, folder: str) -> None:
    """In the image folder, or in one whose name begins like it; modak wrote no record beside it."""
    file = tmp_path / folder / "mine.sif"
    file.parent.mkdir()
    file.write_bytes(b"image")
    store = ImageStore(LocalTransport(), f"{tmp_path}/images")
    images = Images(store, None, Target(name="here"), {})  # type: ignore[arg-type]
    image = images.named(str(file))
    assert images.look(image, "apptainer")
    made = image.model_copy(update={"reference": "docker://r.example.org/app"})
    assert not images.look(made, "apptainer")
