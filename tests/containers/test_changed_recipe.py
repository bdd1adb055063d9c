"""Deploying again after a recipe was changed: the new image is built, and the old job does not stand for it."""

from datetime import UTC, datetime
from pathlib import Path

from containers import Containers, UserTransport
from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.images.ensure import Images, Wish
from modak_deploy.images.store import ImageStore, realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.kept import keep_plan, kept_plan
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment, still_holds, with_image

RECIPE = "version: 1\nrecipes: [{{entry: mine, packages: [python3-minimal], environment: {{GREETING: {}}}}}]\n"
ENTRY = (
    "{{name: mine, source: base, origin: 'docker://{}/library/debian:12', distribution: debian12, python: '3.11.2'}}"
)


def test_a_changed_recipe_is_a_new_plan_a_new_image_and_a_new_job(parts: Containers, tmp_path: Path) -> None:
    site, transport = tmp_path / "site", UserTransport(parts)
    (site / "recipes").mkdir(parents=True)
    (site / "images.yaml").write_text(f"version: 1\nimages: [{ENTRY.format(parts.registry)}]\n")
    recipe = site / "recipes" / "recipes.yaml"
    folder = parts.folder("changed-recipe")
    (tmp_path / "job.py").write_text("import os, sys\nsys.exit(os.environ['GREETING'] != 'right')\n")
    document = {
        "application": {"name": "changed", "type": "hpc", "script": "job.py", "image": "mine"},
        "target": {
            "name": "here", "workspace": str(folder), "runtimes": ["apptainer"],
            "polling": {"first": 0.5, "maximum": 1.0},
        },
        "request": {"catalogue": [str(site)]},
        "job": {"environment": {}},
    }  # fmt: skip

    def deploy() -> tuple[Plan, JobResult]:
        deployment = parse_deployment(document, origin="the test")
        plan = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
        plan = with_image(still_holds(plan, kept_plan(tmp_path / "results", "changed")), transport, search=[tmp_path])
        keep_plan(plan, tmp_path / "results")
        catalogue = catalogue_for([str(site)])
        jobs = Jobs(transport, timeouts=Timeouts(settle=2.0))
        store = ImageStore(transport, f"{folder}/images")
        images = Images(
            store, jobs, plan.target, catalogue.images, recipes=recipes_of(catalogue), logs=tmp_path / "logs"
        )
        assert plan.chosen.image is not None
        images.present(plan.chosen.image, Wish("apptainer", "lz4", timeout=300))
        present = jobs.present(
            job_request(plan),
            find_sources(plan.application, [tmp_path]),
            realise=lambda directory: realise(transport, job_request(plan), directory) and None,
        )
        (result,) = jobs.wait([present], timeout=120)
        return plan, result

    recipe.write_text(RECIPE.format("wrong"))
    first, result = deploy()
    assert (result.state, result.exit_code) == ("failed", 1)
    recipe.write_text(RECIPE.format("right"))
    second, result = deploy()
    assert result.state == "completed"
    assert first.versions.catalogue != second.versions.catalogue
    assert first.chosen.image.digest != second.chosen.image.digest
    assert first.tag() != second.tag()
    third, again = deploy()
    assert third == second
    assert again.id == result.id
    assert len(list((folder / "images").glob("mine-*.sif"))) == 2
