"""A type of target of another distribution: pools of pods behind the API of Kubernetes."""

from modak_deploy.model.kinds import TargetKind


class PodPool(TargetKind):
    """A pool of pods."""

    name = "podpool"
    title = "the pool"
    section = "kubernetes"
    has_login = False
    without_login = "pods have no login"
    pulls_images = True
    holds_secrets = True
    needs_cores = True
    runs_manifests = True
