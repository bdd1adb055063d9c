"""The document of a conversion: what is wrong in it is said with its line and what would be right."""

from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.onnx.request import load_request

GOOD = """\
name: tumours
models:
  - name: net
    framework: pytorch
    file: net.safetensors
    class: nets:Net
    example: {x: {shape: [1, 4]}}
    test: test.npz
"""


def load(folder: Path, text: str) -> str:
    """Return the message that the document is refused with."""
    (folder / "hit.yml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_request(folder / "hit.yml")
    return str(caught.value).replace(f"{folder}/", "")


def test_reads_a_request(tmp_path: Path) -> None:
    (tmp_path / "hit.yml").write_text(GOOD)
    request = load_request(tmp_path / "hit.yml")
    assert request.models[0].class_ == "nets:Net"
    assert request.engine == "cpu"


def test_takes_the_hardware_of_a_target(tmp_path: Path) -> None:
    target = "target:\n  name: box\n  node: {accelerators: [{model: MI50, vendor: amd}]}\n"
    (tmp_path / "hit.yml").write_text(GOOD + target)
    assert load_request(tmp_path / "hit.yml").engine == "migraphx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("framework: pytorch", "framework: pytorhc", "hit.yml:4: models[0].framework: must be"),
        ("    test: test.npz\n", "", "hit.yml:3: models[0]: the key 'test' is required"),
        ("    file:", "    fle:", "hit.yml:5: models[0]: unknown key 'fle'; did you mean 'file'?"),
        ("nets:Net", "nets.Net", "hit.yml:6: models[0].class: must be"),
        (
            "    class: nets:Net\n    ",
            "    stochastic: true\n    skip_validation: slow\n    ",
            "compares nothing: give",
        ),
        ("name: tumours", "name: tumours\nnumerics: fast", "hit.yml:2: numerics: must be 'exact' or 'relaxed'"),
        ("name: tumours", "name: tumours\noptimise: {passes: [float16]}", "it needs 'numerics: relaxed'"),
        (
            "test: test.npz",
            "test: test.npz\n  - {name: NET, framework: jax, class: a:b, example: e.npy, test: t.npy}",
            "twice",
        ),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in load(tmp_path, GOOD.replace(old, new))


def test_two_models_need_a_rule(tmp_path: Path) -> None:
    more = "  - {name: b, framework: jax, class: a:b, example: e.npy, test: t.npy}\n"
    assert "'combine' says how their outputs are combined" in load(tmp_path, GOOD + more)
