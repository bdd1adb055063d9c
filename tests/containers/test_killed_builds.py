"""Builds on the real Slurm that somebody cancels or that run out of time, and the ones that follow them."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from containers import Containers
from imagelocks import held
from modak_deploy.catalogue.recipe import Recipes
from modak_deploy.catalogue.recipefiles import DATA
from modak_deploy.errors import JobError
from modak_deploy.images.build import Build, make_build, run_build
from modak_deploy.images.pin import definition_for
from modak_deploy.images.store import ImageStore
from modak_deploy.jobs.control import Jobs
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Polling, Target
from modak_deploy.transport.ssh import SshTransport
from rig import Rig

RECIPES = """
version: 1
recipes:
  - {entry: quick, packages: [python3-minimal]}
  - {entry: slow, build: slow}
"""
SLOW = """
# The first one is killed here; what a compiler keeps tells the second one that it may go on.
if [ -e /mnt/compiled ]; then exit 0; fi
: >/mnt/compiled
echo compiling
sleep 600
"""


@dataclass(frozen=True)
class Site:
    """A cluster with an empty image folder, and two images: one quick to build, and a slow one on top of it."""

    jobs: Jobs
    store: ImageStore
    target: Target
    images: Mapping[str, ImageEntry]
    recipes: Recipes
    job: JobOptions

    def build(self, name: str, folder: Path, **job: object) -> Build:
        definition = definition_for(name, self.images, recipes=self.recipes)
        options = self.job.model_copy(update=job)
        return make_build(definition, self.target, folder, compression="lz4", job=options)

    def lies(self, pattern: str) -> list[str]:
        return [path.name for path in Path(self.store.images).glob(pattern)]


@pytest.fixture
def cluster_site(parts: Containers, rig_with_runtimes: Rig, tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "recipes"
    (folder / "build").mkdir(parents=True)
    (folder / "recipes.yaml").write_text(RECIPES)
    (folder / "build" / "slow.sh.j2").write_text(SLOW)
    origin = f"docker://{parts.registry}/library/debian:12"
    quick = ImageEntry(name="quick", source="base", origin=origin, distribution="debian12", python="3.11.2")
    slow = ImageEntry(name="slow", source="base", base="quick", distribution="debian12", python="3.11.2")
    store = f"{rig_with_runtimes.home}/built {tmp_path.name}"
    target = Target(name="rig", type="slurm", host="slurm-login", images=store, polling=Polling(first=0.5, maximum=1.0))
    with SshTransport("slurm-login", config=rig_with_runtimes.ssh_config) as transport:
        options = JobOptions(pre_execution=f"export PATH={parts.apptainer}:$PATH", wall_time=600)
        yield Site(
            Jobs(transport), ImageStore(transport, store), target, {"quick": quick, "slow": slow},
            Recipes([DATA, folder]), options,
        )  # fmt: skip
        transport.run(f"chmod -R u+rwX '{store}' && rm -rf '{store}'")


@pytest.mark.parametrize("ending", ["cancelled", "timeout"])
def test_a_build_that_the_scheduler_ends_leaves_nothing_behind_and_the_next_one_goes_on(
    cluster_site: Site, rig_with_runtimes: Rig, tmp_path: Path, ending: str
) -> None:
    run_build(cluster_site.build("quick", tmp_path / "quick"), cluster_site.jobs, tmp_path / "logs", timeout=300)
    first = cluster_site.build("slow", tmp_path / "first", wall_time=600 if ending == "cancelled" else 60)
    if ending == "cancelled":
        threading.Thread(
            target=_cancel, args=[cluster_site, rig_with_runtimes, first.request.name], daemon=True
        ).start()
    with pytest.raises(JobError, match=f"'slow' was not built: job .* ended as {ending}: .*; the next build") as caught:
        run_build(first, cluster_site.jobs, tmp_path / "logs", timeout=300)
    print(caught.value)
    assert "compiling" in Path(str(caught.value).rpartition("the log is ")[2]).read_text()
    assert cluster_site.lies("slow*") == []
    deadline = time.monotonic() + 10  # while it tidies up
    while left := held(Path(cluster_site.store.images)) + cluster_site.lies(".work/*"):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    began = time.time()
    second = cluster_site.build("slow", tmp_path / "second")
    run_build(second, cluster_site.jobs, tmp_path / "logs", timeout=300)
    assert cluster_site.store.check(second.image, "apptainer").labels["modak.digest"] == second.image.digest
    (quick,) = Path(cluster_site.store.images).glob("quick*.sif")
    assert quick.stat().st_mtime < began


def _cancel(site: Site, rig: Rig, name: str) -> None:
    """Cancel the build's job from outside once it compiles."""
    while not site.lies(".cache/compiled"):
        time.sleep(0.2)
    rig.ssh(" ".join(["scancel", *(number for number, (job, _) in rig.jobs().items() if job == name)]))
