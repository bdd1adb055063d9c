"""Processors of other machines, against archspec's own collection of them."""

from pathlib import Path

import archspec
import pytest
from archspec.cpu import TARGETS

from modak_deploy.discovery.hardware import parse_colons
from modak_deploy.discovery.microarchitecture import microarchitecture

SAMPLES = sorted((Path(archspec.__file__).parent / "json" / "tests" / "targets").glob("linux-*"))


def test_there_are_samples() -> None:
    assert len(SAMPLES) > 30


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_processor(sample: Path) -> None:
    expected = sample.name.split("-", 2)[2]
    cpuinfo = parse_colons(sample.read_text().split("\n\n")[0])
    family = TARGETS[expected].family.name
    assert microarchitecture(family, cpuinfo) == expected


def test_other_names_of_a_family() -> None:
    assert microarchitecture("amd64", {"flags": "mmx"}) == "x86_64"
    assert microarchitecture("arm64", {}) == "aarch64"
    assert microarchitecture("s390x", {}) is None
