"""What a Plan would reject although the blueprint alone shows it: names, paths, limits of the target described."""

import re
from collections.abc import Callable, Iterator

from modak.catalogue.catalogue import load_catalogue
from modak.errors import ModakError
from modak.jobs.results import declared_outputs
from modak.model.deployment import Deployment
from modak.model.nodes import node_of, partition_of
from modak.model.reference import parse
from modak.model.target import Facts
from modak.optimiser.candidates import check_names
from modak.optimiser.resources import resources_of

_KEYED = re.compile(r"(?P<key>(?:application|target|request|job)(?:\.\w+)*):? (?P<sentence>.*)", re.DOTALL)


def rejections(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Yield the key and the sentence of each error, the key as in a deployment document."""
    for check, key in _CHECKS:
        try:
            check(deployment)
        except ModakError as error:
            match = _KEYED.fullmatch(str(error))
            key, sentence = (match["key"], match["sentence"]) if match else (key, str(error))
            yield (_lever_key(deployment, sentence) if key == "request" else key), sentence


def _lever_key(deployment: Deployment, sentence: str) -> str:
    """Return the key of the request whose list holds the lever that a sentence quotes."""
    for key in ("require_levers", "forbid_levers"):
        if any(f"'{name}'" in sentence for name in getattr(deployment.request, key)):
            return f"request.{key}"
    return "request"


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


_CHECKS: tuple[tuple[Callable[[Deployment], None], str], ...] = (
    (_outputs, "application.outputs"),
    (_image, "application.image"),
    (_levers, "request"),
    (_resources, "job"),
)
