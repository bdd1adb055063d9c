"""The names under which pip looks for wheels."""

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.images.wheels import _platforms

ENTRY = load_catalogue().images["keras-3.15-pip-cpu"]


def test_names_before_pep_600_are_those_of_the_processor() -> None:
    assert {"manylinux_2_36_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"} < set(_platforms(ENTRY))
    # torch 2.5 is there as manylinux2014_aarch64 only; the older names are for x86 alone (PEP 513, 571, 599).
    arm = set(_platforms(ENTRY.model_copy(update={"architecture": "arm64"})))
    assert {"manylinux_2_36_aarch64", "manylinux2014_aarch64", "linux_aarch64"} < arm
    assert not {"manylinux1_aarch64", "manylinux2010_aarch64"} & arm
