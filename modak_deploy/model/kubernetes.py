"""Clusters of Kubernetes: where the Job of a Plan is put, and how the cluster is reached."""

import posixpath
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from modak_deploy.model.base import Line, Model

DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""RFC 1123 label, as names of namespaces are."""
DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
"""RFC 1123 subdomain, as names of claims and Secrets are."""
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
    ),
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")]
MountPath = Annotated[str, StringConstraints(pattern=r"^/[^:\x00-\x1f]{1,1000}$")]


class _JobLocation(Model):
    """Where and how a Job runs on a cluster."""

    queue: LabelValue | None = None
    """Kueue's LocalQueue; the Job is then created suspended, and Kueue starts it."""
    node_selector: dict[LabelKey, LabelValue] = {}
    """Labels that a node must have."""
    claims: dict[DnsName, MountPath] = {}
    """PersistentVolumeClaims and where they are mounted."""
    work_claim: DnsName | None = None
    """PersistentVolumeClaim of the working directory, in which the results stay."""
    secret: DnsName | None = None
    """Secret with a key for each of the application's secret variables."""
    pull_secret: DnsName | None = None
    """Secret with which the image is pulled."""

    @model_validator(mode="after")
    def _mounts_are_apart(self) -> Self:
        # normpath keeps two slashes at the start, as POSIX permits.
        paths = sorted(posixpath.normpath(f"/{path.lstrip('/')}") for path in self.claims.values())
        for path in paths:
            if path == "/" or path.split("/")[1] == "modak":
                raise ValueError(f"a claim cannot be mounted at '{path}': use another path than / and /modak")
        if twice := next((path for path, after in pairwise(paths) if path == after), None):
            raise ValueError(f"two claims are mounted at '{twice}'")
        return self


class Placement(_JobLocation):
    """Where and how the Job of a manifest runs."""

    namespace: DnsLabel = "default"
    """Namespace of everything that is created."""
    gpu: Literal["nvidia", "amd"] = "nvidia"
    """Whose device plugin the cluster has."""
    keep: Annotated[int, Field(ge=0)] | None = None
    """Seconds after which a Job that has ended is deleted; it stays when absent."""


class Kubernetes(_JobLocation):
    """A namespace of a cluster; credentials come from KUBECONFIG or the pod's service account alone."""

    namespace: DnsLabel | None = None
    """Namespace of everything that is created; ``default`` when absent."""
    gpu: Literal["nvidia", "amd"] | None = None
    """Whose device plugin the cluster has; NVIDIA's when absent."""
    context: Line | None = None
    """Context in KUBECONFIG; the current one when absent."""

    @property
    def placement(self) -> Placement:
        """The placement of a Job. It stays after its end: one that is deleted would be run again."""
        return Placement.model_validate(self.model_dump(exclude={"context"}, exclude_none=True))
