"""A container on the real Slurm over ssh: planned from what the login node tells, checked there, run by srun."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers
from modak.documents import find_sources, parse_deployment
from modak.errors import TargetError
from modak.images.store import realise
from modak.jobs.control import Jobs
from modak.model.plan import Plan
from modak.planning import plan_deployment, with_image
from modak.transport.ssh import SshTransport
from rig import Rig

SCRIPT = """
import json, os, sys
from pathlib import Path
known = {name: os.environ.get(name) for name in ("SLURM_JOB_ID", "SLURM_PROCID", "ASKED_FOR", "PYTHONPATH")}
inside = Path("/.singularity.d").is_dir()
Path(f"rank-{known['SLURM_PROCID']}.json").write_text(json.dumps({"inside": inside, "argv": sys.argv[1:], **known}))
"""


@pytest.fixture
def login(real_slurm: Rig, parts: Containers) -> Iterator[SshTransport]:
    """The login node, whose user has Apptainer on the PATH; jobs get theirs from what they do first."""
    profile = real_slurm.home / ".bashrc"
    before = profile.read_text() if profile.exists() else None
    profile.write_text(f"export PATH={parts.apptainer}:$PATH\n")
    try:
        with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
            yield transport
    finally:
        if before is None:
            profile.unlink()
        else:
            profile.write_text(before)


@pytest.fixture
def python_sif(parts: Containers, sif: Path) -> Path:
    """The base system with Python, where every user can read it."""
    found = sorted((parts.home / "workspace" / "images").glob("debian12-cpu-*.sif"))
    assert found, "test_build.py makes it"
    return found[0]


def plan_for(parts: Containers, image: Path, folder: Path, transport: SshTransport, **job: object) -> Plan:
    (folder / "job.py").write_text(SCRIPT)
    document = {
        "application": {
            "name": "in-apptainer", "script": "job.py", "type": "hpc", "image": str(image),
            "arguments": ["a b", "$(id)", "'"], "outputs": ["rank-0.json", "rank-1.json"],
            "environment": {"ASKED_FOR": 'x "y" $(id) `id`, z'},
        },
        "target": {"name": "rig", "type": "slurm", "host": "slurm-login", "polling": {"first": 0.5, "maximum": 2.0}},
        "request": {"runtimes": ["apptainer"]},
        "job": {"wall_time": "5m", "pre_execution": f"export PATH={parts.apptainer}:$PATH", **job},
    }  # fmt: skip
    deployment = parse_deployment(document, origin="the test")
    plan = plan_deployment(deployment, transport, search=[folder], now=datetime.now(UTC))
    return with_image(plan, transport, search=[folder])


def test_ranks_run_in_the_image_with_what_slurm_and_the_plan_give_them(
    parts: Containers, login: SshTransport, python_sif: Path, tmp_path: Path
) -> None:
    import json

    plan = plan_for(parts, python_sif, tmp_path, login, nodes=2, ranks=2, ranks_per_node=1)
    assert plan.chosen.runtime == "apptainer"
    jobs = Jobs(login)
    jobs.absent(plan)
    present = jobs.present(
        plan, find_sources(plan.application, [tmp_path]),
        realise=lambda directory: realise(login, plan, directory) and None,
    )  # fmt: skip
    (result,) = jobs.wait([present], timeout=120)
    brought = jobs.bring(present.job, result, tmp_path / "results").result
    folder = tmp_path / "results" / plan.name
    assert result.state == "completed", (folder / "output.log").read_text()
    ranks = [json.loads((folder / f"rank-{number}.json").read_text()) for number in (0, 1)]
    assert [rank["SLURM_PROCID"] for rank in ranks] == ["0", "1"]
    assert all(rank["inside"] and rank["SLURM_JOB_ID"] == brought.id for rank in ranks)
    assert all(rank["ASKED_FOR"] == 'x "y" $(id) `id`, z' and rank["PYTHONPATH"] is None for rank in ranks)
    assert all(rank["argv"] == ["a b", "$(id)", "'"] for rank in ranks)
    jobs.absent(plan)


def test_nothing_is_submitted_when_the_image_was_changed(
    parts: Containers, login: SshTransport, real_slurm: Rig, python_sif: Path, tmp_path: Path
) -> None:
    copy = real_slurm.home / "changed.sif"
    copy.write_bytes(python_sif.read_bytes())
    plan = plan_for(parts, copy, tmp_path, login)
    with copy.open("r+b") as file:
        file.seek(100_000)
        file.write(b"changed")
    before = set(real_slurm.jobs())
    jobs = Jobs(login)
    try:
        with pytest.raises(TargetError, match=f"the image {copy} was changed"):
            jobs.present(
                plan, find_sources(plan.application, [tmp_path]),
                realise=lambda directory: realise(login, plan, directory) and None,
            )  # fmt: skip
        assert set(real_slurm.jobs()) == before
    finally:
        copy.unlink()
        jobs.absent(plan)
