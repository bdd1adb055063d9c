"""The images and hardware that ship, and the index over them."""

import pytest
from archspec.cpu import TARGETS

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.imagefile import Alike, ImageIndex
from modak_deploy.catalogue.names import accelerator_name
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.reference import parse

TABLE_I = [
    ("tensorflow", "1.14", ["hub", "pip"], None),
    ("tensorflow", "2.1", ["hub", "pip", "opt-build"], "xla"),
    ("pytorch", "1.4", ["hub", "pip", "opt-build"], None),
    ("mxnet", "1.6", ["hub"], None),
    ("cntk", "2.7", ["hub"], None),
    ("pytorch", "1.4", ["opt-build"], "glow"),
    ("tensorflow", "1.14", ["pip"], "ngraph"),
]
TODAY = ["tensorflow", "pytorch", "jax", "keras", "onnxruntime", "openvino", "tensorrt", "tvm"]


@pytest.mark.parametrize(("framework", "version", "sources", "compiler"), TABLE_I)
def test_table_one_of_the_paper_is_there(framework, version, sources, compiler):
    found = {
        image.source
        for image in load_catalogue().images.values()
        if image.framework == framework
        and image.version.startswith(f"{version}.") | (image.version == version)
        and (compiler is None or compiler in image.compilers)
    }
    assert set(sources) <= found


def test_todays_frameworks_are_there_for_every_vendor():
    images = load_catalogue().images.values()
    assert set(TODAY) <= {image.framework for image in images}
    assert {None, "nvidia", "amd"} == {image.accelerator for image in images}
    assert {image.mpi.family for image in images if image.mpi and image.source == "base"} == {"mpich", "openmpi"}


def test_every_image_can_be_pulled_or_built_and_pretends_nothing():
    catalogue = load_catalogue()
    for image in catalogue.images.values():
        assert [image.reference, image.origin, image.base].count(None) == 2
        assert image.digest is None, "no image that ships was resolved"
        if (reference := image.reference or image.origin) is not None:
            parse(reference)
        if image.microarchitecture is not None:
            assert image.microarchitecture in TARGETS
        if image.base is not None and image.accelerator is not None:
            assert catalogue.images[image.base].accelerator == image.accelerator


def test_the_hardware_that_ships_names_real_microarchitectures():
    catalogue = load_catalogue()
    assert all(p.microarchitecture in TARGETS for p in catalogue.processors.values())
    assert all(name in TARGETS for name in catalogue.microarchitectures)
    assert {p.microarchitecture for p in catalogue.processors.values()} <= set(catalogue.microarchitectures)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("GeForce GTX 1080 Ti", "gtx-1080-ti"),
        ("NVIDIA GeForce GTX 1080", "gtx-1080"),
        ("Tesla V100-PCIE-16GB", "v100"),
        ("Tesla P40", "p40"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "nvidia a100-sxm4-40gb mig 1g.5gb"),
        ("Voodoo 2", "voodoo 2"),
    ],
)
def test_drivers_names_of_accelerators(model, name):
    assert accelerator_name(model, load_catalogue()) == name


def image(name, version="2.0.0", **more):
    fields = {"source": "hub", "framework": "pytorch", "version": version, "reference": "docker://x/y:1", **more}
    return ImageEntry(name=name, **fields)


def test_images_are_grouped_by_what_decides_whether_they_fit():
    index = ImageIndex([image("a"), image("b"), image("c", "2.1.0"), image("d", accelerator="nvidia")], {})
    groups = index.holding("torch")
    assert sorted(sorted(entry.name for entry in group) for group in groups) == [["a", "b"], ["c"], ["d"]]
    assert index.holding("tensorflow") == ()


def test_what_a_project_publishes_comes_first_and_newer_before_older():
    built = image("built", "3.0.0", source="pip", base="x")
    groups = [Alike([image("old", "1.9.0")]), Alike([built]), Alike([image("new", "1.10.0"), image("also", "1.10.0")])]
    assert [entry.name for entry in Alike.preferred(groups, 3)] == ["also", "new", "old"]


def test_a_distribution_by_another_name_is_found_by_the_package():
    index = ImageIndex([image("a", packages={"onnxruntime-gpu": "1.20.0"})], {"onnxruntime": ["onnxruntime-gpu"]})
    assert [entry.name for entry in index.holding("onnxruntime")[0]] == ["a"]
