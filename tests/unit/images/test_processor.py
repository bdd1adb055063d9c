"""For which processor a reference is resolved that the catalogue does not have."""

from typing import Any

import pytest

import modak_deploy.images.ensure
from modak_deploy.images.ensure import Images
from modak_deploy.images.registry import Resolved
from modak_deploy.images.store import ImageStore
from modak_deploy.model.reference import Reference
from modak_deploy.model.target import Target
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport

ARM, X86 = ("sha256:" + digit * 64 for digit in "ab")


@pytest.mark.parametrize(
    ("machine", "architecture"), [("aarch64", "arm64"), ("arm64", "arm64"), ("x86_64", "amd64"), ("", "amd64")]
)
def test_a_reference_is_that_of_the_target_s_processor(
    machine: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Target_(LocalTransport):
        def run(self, command: str, **_: Any) -> Completed:
            assert command == "uname -m"
            return Completed(0, f"{machine}\n", "")

    def resolve(reference: Reference, architecture: str) -> Resolved:
        return Resolved(reference.pinned({"arm64": ARM, "amd64": X86}[architecture]), architecture, 7)

    monkeypatch.setattr(modak_deploy.images.ensure, "resolve", resolve)
    images = Images(ImageStore(Target_(), "/images"), None, Target(name="there"), {})  # type: ignore[arg-type]
    image = images.named("docker://r.example.org/app:1")
    assert (image.architecture, image.digest) == (architecture, ARM if architecture == "arm64" else X86)
