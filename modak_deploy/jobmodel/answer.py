"""The whole way: a document in, its Plan and the completed document out."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.diagnostics import Diagnostic, Locate, Location, Position
from modak_deploy.documents import check
from modak_deploy.errors import InfeasibleError, ModakError
from modak_deploy.jobmodel.imagebuild import built_image
from modak_deploy.jobmodel.layout import stated_efficiency
from modak_deploy.jobmodel.model import JobBody, JobDocument, with_versions_as_text, without_blanks
from modak_deploy.jobmodel.names import in_job_model, is_job_model
from modak_deploy.jobmodel.script import build_script, image_of, job_script
from modak_deploy.jobmodel.site import Sites
from modak_deploy.jobmodel.translate import Translation, translate
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import available_measurements


@dataclass(frozen=True)
class Answer:
    """What a document comes to."""

    plan: Plan
    document: dict[str, Any]
    """The document with what was chosen and the scripts."""
    job_script: str
    build_script: str | None
    assumed: Sequence[str]
    """What is taken for granted, in sentences."""

    def names(self) -> tuple[str, str]:
        """Return names for the two scripts' files, which no other job has."""
        stem = f"{self.plan.name}-{self.plan.tag().removeprefix('modak-')}"
        return f"{stem}.sh", f"{stem}-build.sh"

    def with_scripts_in(self, folder: Path) -> dict[str, Any]:
        """Return the document with the scripts' places in ``folder``."""
        job, build = self.names()
        document = copy.deepcopy(self.document)
        document["job"]["job_script"] = str(folder / job)
        if self.build_script is not None:
            document["job"]["build_script"] = str(folder / build)
        return document


def answer(
    data: dict[str, Any],
    *,
    sites: Sites,
    now: datetime,
    search: Sequence[Path] = (),
    catalogue: Sequence[str] = (),
    origin: str = "the document",
    locate: Locate | None = None,
    written: Callable[[Location], str | None] = lambda _: None,
) -> Answer:
    """Plan what ``data`` describes, without asking the target; InputError and InfeasibleError name its own fields.

    ``locate`` returns the line of a field, ``written`` its text: of the number 2.10 only that has the zero.
    """
    data = with_versions_as_text(data, written)
    job = check(JobDocument, without_blanks(data), origin=origin, locate=locate).job
    try:
        return _answered(data, job, sites, now, search, catalogue, origin)
    except ModakError as error:
        own = in_job_model(error, names_partition=job.job_options.queue is None)
        raise own.mapped(lambda diagnostic: _located(diagnostic, origin, locate)) from None


def _located(diagnostic: Diagnostic, origin: str, locate: Locate | None) -> Diagnostic:
    """Return a problem of the job as one of the document, with its line."""
    if diagnostic.source not in ("", origin):
        return diagnostic
    if not is_job_model(diagnostic.path):
        return diagnostic.at(Position(origin))
    path = ("job", *diagnostic.path)
    position = locate(path) if locate else None
    return diagnostic.at(position or Position(origin), path)


def _answered(
    data: dict[str, Any],
    job: JobBody,
    sites: Sites,
    now: datetime,
    search: Sequence[Path],
    catalogue: Sequence[str],
    origin: str,
) -> Answer:
    sites = sites.including(job.target.name)
    whole = catalogue_for([*sites.catalogue, *catalogue], search)
    translation = translate(job, sites, whole, origin=origin)
    plan = make_plan(
        translation.deployment,
        translation.facts,
        [],
        now=now,
        catalogue=translation.catalogue,
        measurements=available_measurements(),
    )
    if plan.chosen.runtime != "native" and plan.target.name in sites.signed:
        raise InfeasibleError(
            f"images of the site {plan.target.name} must be signed, and a self-contained script cannot verify that",
            key="application.container_runtime",
            hint="deploy it as an application of a document",
        )
    built = built_image(plan, whole, translation.site.images)
    script = job_script(plan, translation.passed, built)
    build = build_script(plan, job.application.build, built)
    document = _completed(data, job, plan, image_of(plan, built), script, build, translation)
    return Answer(plan, document, script, build, translation.assumed)


def _completed(
    data: dict[str, Any],
    job: JobBody,
    plan: Plan,
    image: str | None,
    script: str,
    build: str | None,
    translation: Translation,
) -> dict[str, Any]:
    """Return the document with what was chosen; what an earlier answer said of scripts is replaced."""
    document = copy.deepcopy(data)
    body = document["job"]
    for key in ("job_script", "job_content", "build_script", "build_content"):
        body.pop(key, None)
    application = body["application"]
    if image is not None:
        application["container_runtime"] = image
    resources = plan.chosen.resources
    # A stated efficiency is that at the limits: they stay then.
    limited = job.application.minimal_efficiency is not None and stated_efficiency(job) is not None
    if not limited and (resources.ranks > 1 or application.get("mpi_ranks")):
        application["mpi_ranks"] = resources.ranks
    if not limited and application.get("threads") and plan.job.threads is None and resources.threads:
        application["threads"] = resources.threads
    options = body.get("job_options")
    if isinstance(options, dict) and options.get("node_count"):  # not a blank text, which stands for none
        options["node_count"] = resources.nodes
    _set_xla(body, job, plan, translation)
    body["job_content"] = script
    if build is not None:
        body["build_content"] = build
    return document


def _set_xla(body: dict[str, Any], job: JobBody, plan: Plan, translation: Translation) -> None:
    """Say whether XLA was chosen, where the framework has it."""
    training = job.optimisation.training if job.optimisation else None
    if training is None or training.config.ai_framework != "tensorflow":
        return
    compilers = [translation.catalogue.levers[name].compiler for name in plan.chosen.levers]
    sections, key = body["optimisation"]["app_type-ai_training"], "ai_framework-tensorflow"
    if not isinstance(sections.get(key), dict):  # null and blank texts stand for an absent section
        sections[key] = {}
    sections[key]["xla"] = "xla" in compilers
