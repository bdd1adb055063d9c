"""A newcomer: from the wheel to an own PyTorch script that is tuned on a real Slurm, by the tutorial's commands alone.

The commands and files are those of docs/tutorials/cli.md, so that the page and this test cannot diverge. Two things are
prepared: ``pip install modak-deploy`` finds the wheel of this checkout, and the login node has a Python with PyTorch
where the page says so, which is the one of the tests, for to fetch PyTorch takes longer than all the rest.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tutorials
from rig import TOP, Rig

PAGE = tutorials.FOLDER / "cli.md"
MINUTES = 10
"""What the page promises, installation included."""


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="modak-newcomer.", dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture
def constraint(tmp_path: Path) -> Path:
    """A file of constraints by which pip takes this checkout's wheel, and no other one from the index."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, TOP]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    path = tmp_path / "constraint.txt"
    path.write_text(f"modak-deploy @ {wheel.as_uri()}\n")
    return path


def test_from_the_wheel_to_a_tuned_job(home: Path, constraint: Path, real_slurm: Rig, login_torch: Path) -> None:
    script = tutorials.session(PAGE.read_text(), real_slurm.ssh_config)
    folder = home / "first"
    folder.mkdir()
    environment = {**tutorials.newcomer(home, real_slurm.ssh_config), "PIP_CONSTRAINT": str(constraint)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * MINUTES,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    learnt = done.stdout.partition("$ modak deploy")[2].partition("$ modak deploy")
    assert learnt[1], "the page deploys once only"
    assert "before the run: measured" in learnt[0]
    plan = json.loads((folder / "results" / "shapes" / "plan.json").read_text())
    assert plan["prediction"]["basis"] == "trial"
    assert all(other["prediction"]["basis"] != "none" for other in plan["alternatives"][:2])
    assert plan["target"]["host"] == tutorials.HOST
    job = json.loads((folder / "results" / "shapes" / "job.json").read_text())
    assert (job["state"], job["results"]) == ("completed", str(folder / "results" / "shapes"))
    checkout = subprocess.run(
        [home / "modak" / "bin" / "python", "-I", "-c", "import sys; print(sys.prefix, sys.path)"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert str(TOP) not in checkout
