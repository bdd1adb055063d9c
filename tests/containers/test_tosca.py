"""xOpera on a blueprint with an image: built on the real Slurm as a job, used by the next job, and removed again."""

import secrets
import shutil
from pathlib import Path

import pytest

from containers import Containers
from orchestrator import BLUEPRINTS, Orchestrator, connection, nothing_left
from rig import TOP, Rig
from sites import TINY

BLUEPRINT = TOP / "tests" / "data" / "blueprints" / "image.yaml"


@pytest.mark.smoke
def test_an_image_is_built_used_and_removed(
    parts: Containers, rig_with_runtimes: Rig, site: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "blueprint"
    shutil.copytree(BLUEPRINTS / "modak", project / "modak")
    shutil.copy(TINY, project)
    shutil.copy(BLUEPRINT, project)
    opera = Orchestrator(tmp_path, environment, project / BLUEPRINT.name)
    name = f"boxed-{secrets.token_hex(4)}"
    before = f"export PATH={parts.apptainer}:$PATH"
    opera.inputs(name=name, catalogue=[str(site)], before=before, **connection(rig_with_runtimes))
    validated = opera.run("validate", "-i", "inputs.yaml", str(opera.blueprint))
    assert validated.code == 0, validated.text
    deployed = opera.deploy(timeout=300)
    assert deployed.code == 0, deployed.text
    outputs = opera.outputs()
    path = Path(outputs["path"])
    assert path.is_relative_to(rig_with_runtimes.home / ".modak" / "images")
    assert path.exists()
    assert outputs["digest"].removeprefix("sha256:")[:16] in path.name
    assert (outputs["state"], outputs["runtime"]) == ("completed", "apptainer")
    assert outputs["metrics"]["sum"] > 0
    assert {name, "image-debian12-cpu"} <= {
        job for job, state in rig_with_runtimes.jobs().values() if state == "COMPLETED"
    }
    undeployed = opera.run("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert not path.exists()
    assert not path.with_name(path.name + ".info").exists()


def test_digits_in_a_container(
    parts: Containers, rig_with_runtimes: Rig, site: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    opera = Orchestrator(tmp_path, environment, BLUEPRINTS / "digits-container.yaml")
    before = f"export PATH={parts.apptainer}:$PATH"
    given = {"catalogue": [str(site)], "pre_execution": before, "compression": "lz4", "remove": False}
    given |= connection(rig_with_runtimes)
    with nothing_left(rig_with_runtimes.home / ".modak"):
        opera.inputs(epochs=2, **given)
        deployed = opera.deploy(timeout=900)
        assert deployed.code == 0, deployed.text
        outputs = opera.outputs()
        assert (outputs["state"], outputs["runtime"]) == ("completed", "apptainer")
        assert outputs["accuracy"] > 0.5
        assert outputs["digest"]
        opera.inputs(epochs=1, **given)
        updated = opera.run("update", "-i", "inputs.yaml", str(opera.blueprint), timeout=900)
        assert updated.code == 0, updated.text
        again = opera.outputs()
        assert (again["state"], again["digest"]) == ("completed", outputs["digest"])
        assert again["job_id"] != outputs["job_id"]
        undeployed = opera.run("undeploy")
        assert undeployed.code == 0, undeployed.text
    assert list((rig_with_runtimes.home / ".modak" / "images").glob("keras-*.sif")), "it was to stay"
    rig_with_runtimes.ssh("rm -rf .modak/images")
