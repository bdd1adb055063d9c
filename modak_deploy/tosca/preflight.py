"""What a Plan would reject although the blueprint alone shows it: names, paths, limits of the target described."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.diagnostics import Diagnostic, Location
from modak_deploy.errors import ModakError
from modak_deploy.jobs.results import declared_outputs
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.nodes import node_of, partition_of
from modak_deploy.model.reference import parse
from modak_deploy.model.target import Facts
from modak_deploy.optimiser.candidates import check_names
from modak_deploy.optimiser.resources import resources_of


def rejections(deployment: Deployment) -> Iterator[Diagnostic]:
    """Yield each error, its path as in a deployment document."""
    for check, path in _CHECKS:
        try:
            check(deployment)
        except ModakError as error:
            for diagnostic in error.diagnostics:
                yield diagnostic if diagnostic.path else replace(diagnostic, path=path)


def _outputs(deployment: Deployment) -> None:
    declared_outputs(deployment.application)


def _image(deployment: Deployment) -> None:
    if deployment.application.image is not None:
        parse(deployment.application.image)


def _levers(deployment: Deployment) -> None:
    if not deployment.request.catalogue:  # another catalogue may have others, and is not fetched here
        check_names(load_catalogue(), deployment)


def _resources(deployment: Deployment) -> None:
    partition = partition_of(deployment, Facts())
    node = node_of(deployment, Facts(), partition)
    if not node.accelerators:  # those that are not described may be found
        deployment = deployment.model_copy(update={"job": deployment.job.model_copy(update={"gpus": 0})})
    resources_of(deployment, node, partition)


_CHECKS: tuple[tuple[Callable[[Deployment], None], Location], ...] = (
    (_outputs, ("application", "outputs")),
    (_image, ("application", "image")),
    (_levers, ("request",)),
    (_resources, ("job",)),
)
