"""What is written down of an image that is pulled."""

from typing import Any

import pytest

import modak_deploy.images.store
from modak_deploy.images.registry import Resolved
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.remote import Answer
from modak_deploy.model.execution import Image
from modak_deploy.model.reference import Reference
from modak_deploy.transport.local import LocalTransport

INDEX, VARIANT = ("sha256:" + digit * 64 for digit in "ab")


def test_an_index_is_written_down_by_the_digest_that_the_plan_names(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, list[str]] = {}

    def call(transport: object, step: str, arguments: list[str], **_: Any) -> Answer:
        steps[step] = arguments
        return Answer([("pulled", "3"), ("info", f"sha256={'c' * 64}\nsize=7")] if step == "pull" else [], "")

    def resolve(reference: Reference, *_: object) -> Resolved:
        return Resolved(reference.pinned(VARIANT), "amd64", 7)

    monkeypatch.setattr(modak_deploy.images.store, "call", call)
    monkeypatch.setattr(modak_deploy.images.store, "resolve", resolve)
    image = Image(reference=f"docker://r.example.org/app@{INDEX}", digest=INDEX)
    assert ImageStore(LocalTransport(), "/images").pull(image, "apptainer").pulled
    assert steps["pull"][3:5] == [f"docker://r.example.org/app@{INDEX}", INDEX]
