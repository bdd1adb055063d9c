"""The kinds of targets, which ``target.type`` names, and what planning and deploying must be told of each.

Others ask for these, not for the name of a type, so that one of another distribution needs no change elsewhere.
"""

from typing import ClassVar

from modak_deploy.extensions import SCHEDULERS, TARGETS


class TargetKind:
    """What holds for all targets of a type; without a change, what holds for a machine.

    A kind is a subclass, registered by its name in the entry point group ``modak.targets``.
    """

    name: ClassVar[str]
    title: ClassVar[str] = "the target"
    """What messages call it."""
    section: ClassVar[str] = ""
    """Section of the target's description that only this kind has; empty where there is none."""
    single_node: ClassVar[bool] = True
    """Whether it is one node without a queue; where it is not, the type is the name of a scheduler."""
    has_login: ClassVar[bool] = True
    """Whether one can log in, by SSH or as on this machine; where one cannot, it is planned for as it is described."""
    without_login: ClassVar[str] = "nobody logs in there"
    """Why it has no host, where one cannot log in: the end of a message."""
    pulls_images: ClassVar[bool] = False
    """Whether its nodes pull the images of a registry themselves, and run nothing else."""
    holds_secrets: ClassVar[bool] = False
    """Whether the values of an application's secrets are kept there, and are not read by the controller."""
    needs_cores: ClassVar[bool] = False
    """Whether a job that asks for no cores may get none, so that all of the node's are asked for."""
    runs_manifests: ClassVar[bool] = False
    """Whether its jobs are Jobs of the API of Kubernetes, which the controller creates and a cluster schedules."""


class Machine(TargetKind):
    """A machine that is there."""

    name = "machine"


class CloudInstance(TargetKind):
    """An instance of a cloud, which is created or there."""

    name = "cloud"
    section = "cloud"


class KubernetesCluster(TargetKind):
    """A namespace of a cluster of Kubernetes."""

    name = "kubernetes"
    title = "Kubernetes"
    section = "kubernetes"
    has_login = False
    without_login = "its API server is named by KUBECONFIG"
    pulls_images = True
    holds_secrets = True
    needs_cores = True
    runs_manifests = True


class _Queue(TargetKind):
    """A cluster with a scheduler, for which the type is named."""

    single_node = False


def kind_of(target: str) -> TargetKind:
    """Return the kind of a target of this type; InputError where its distribution is faulty."""
    if target in SCHEDULERS.builtin or target not in TARGETS:
        return _Queue()
    kind: TargetKind = TARGETS.make(target, TargetKind)
    return kind
