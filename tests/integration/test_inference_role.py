"""The role ``inference`` with relative paths, as in its defaults, and before there is a bundle."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rig import TOP

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")


class Controller:
    """A folder in which a play of the role is run, and which holds a model's files."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        (folder / "plays").mkdir()
        (folder / "data").mkdir()
        np.savez(folder / "data" / "x.npz", x=np.ones((3, 2), np.float32))
        self.variables: dict[str, Any] = {
            "inference_input": "data/x.npz",
            "inference_environment": {"PYTHONPATH": str(TOP)},
            "inference_target": {"name": "localhost", "workspace": str(folder / "space")},
        }

    def play(self, *arguments: str, **variables: Any) -> str:
        """Run the role by a playbook that lies elsewhere; return what it prints."""
        role = {"role": "modak.deploy.inference", "vars": self.variables | variables}
        play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "roles": [role]}]
        (self.folder / "plays" / "play.yml").write_text(yaml.safe_dump(play))
        done = subprocess.run(
            ["ansible-playbook", "plays/play.yml", *arguments],
            cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout


@pytest.fixture
def controller(tmp_path: Path, environment: dict[str, str]) -> Controller:
    return Controller(tmp_path, environment)


@pytest.mark.parametrize("name", ["results/line.bundle", "./line.bundle/", "../other/line.bundle"])
def test_a_bundle_and_an_input_below_the_working_directory(controller: Controller, name: str) -> None:
    from onnxparts import bundle, linear

    where = (controller.folder / name).resolve()
    where.parent.mkdir(exist_ok=True)
    bundle(where, {"line": linear([[1, 2], [3, 4]])})
    controller.play(inference_bundle=name, inference_name="infer")
    (outputs,) = np.load(controller.folder / "results" / "infer" / "predictions.npz").values()
    np.testing.assert_allclose(outputs, [[4, 6]] * 3)
    assert "changed=0" in controller.play(inference_bundle=name, inference_name="infer")


@pytest.mark.parametrize("as_data", [False, True])
def test_check_mode_before_there_is_a_bundle(controller: Controller, as_data: bool) -> None:
    for name in ("nets.py", "line.pt"):
        (controller.folder / name).write_text("")
    model = {"name": "line", "framework": "pytorch", "file": "line.pt", "class": "nets:Line", "code": "nets.py"}
    request = {"name": "line", "models": [{**model, "example": "data/x.npz", "test": {"file": "data/x.npz"}}]}
    (controller.folder / "convert.yml").write_text(yaml.safe_dump(request))
    given = {"inference_request": request} if as_data else {"inference_document": "convert.yml"}
    printed = controller.play("--check", "-e", json.dumps(given))
    assert "'infer' would be run with the new bundle" in printed
    assert "changed=2" in printed
    assert not (controller.folder / "results").exists()
