"""Options that 'modak manifest' and 'modak kubernetes' have in common: where and how a Plan's Job is created."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

PlanFile = Annotated[
    Path, typer.Argument(readable=False, metavar="PLAN", help="A Plan, as modak plan --output writes it.")
]
Namespace = Annotated[str, typer.Option(metavar="NAME", help="Namespace of the Job.")]
Queue = Annotated[str | None, typer.Option(metavar="NAME", help="Kueue's LocalQueue, which starts the Job.")]
NodeSelector = Annotated[
    list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Label that the node must have; repeatable.")
]
Claim = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help="PersistentVolumeClaim and where it is mounted; repeatable."),
]
WorkClaim = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="PersistentVolumeClaim of the working directory; results stay there."),
]
Secret = Annotated[str | None, typer.Option(metavar="NAME", help="Secret with the application's secret variables.")]
PullSecret = Annotated[str | None, typer.Option(metavar="NAME", help="Secret to pull the image with.")]
Gpu = Annotated[str, typer.Option(metavar="VENDOR", help="Vendor of the GPUs: nvidia or amd.")]
Search = Annotated[
    list[Path] | None,
    typer.Option(metavar="FOLDER", help="Look for the application's files there before the Plan's folder."),
]


def pairs(node_selector: Sequence[str] | None, claim: Sequence[str] | None) -> Mapping[str, Sequence[str]]:
    """Return the repeatable options as ``modak_deploy.manifest.placement_of`` reads them."""
    return {"node_selector": node_selector or [], "claims": claim or []}
