"""``benchmarks/lever_sets.yaml``: sets of levers that are measured together are checked when they are read."""

import pytest

from modak_deploy.errors import InputError


@pytest.fixture
def read_sets(benchmark_module):
    return benchmark_module("lever_sets").read_sets


def test_what_ships_is_sound(read_sets):
    sets = read_sets()
    assert ["pytorch-tf32", "pytorch-cuda-graph"] in sets
    assert all(len(names) > 1 for names in sets)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sets:\n  - [pytorch-tf32]\n", ":2: sets[0]: "),
        ("sets:\n  - [pytorch-tf32, pytorch-compil]\n", ":2: sets[0]: the lever 'pytorch-compil' is not supported by"),
        ("sets:\n  - [pytorch-tf32, pytorch-tf32]\n", ":2: sets[0]: names 'pytorch-tf32' twice"),
        ("sets:\n  - [pytorch-compile, pytorch-compile-frozen]\n", "cannot be on together"),
        ("sets:\n  - [pytorch-tf32, pytorch-compile]\n  - [pytorch-compile, pytorch-tf32]\n", "stands there twice"),
        ("sets:\n  - pytorch-tf32+pytorch-compile\n", ":2: sets[0]: "),
        ("set: []\n", "set"),
    ],
)
def test_a_faulty_set_is_refused_with_its_line(read_sets, tmp_path, text, problem):
    path = tmp_path / "lever_sets.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_sets(path)
    assert str(error.value).startswith(f"{path}:")
    assert problem in str(error.value)
