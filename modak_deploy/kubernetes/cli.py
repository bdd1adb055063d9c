"""``modak kubernetes``: a Plan as a Job of a cluster."""

import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_deploy.terminal import visible

if TYPE_CHECKING:
    from modak_deploy.kubernetes.commands import Described

app = typer.Typer(help="Run Plans as Jobs of a Kubernetes cluster.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A Plan, as modak plan --output writes it.")]
Namespace = Annotated[str, typer.Option(metavar="NAME", help="Namespace of the Job.")]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Context in KUBECONFIG, in place of the current one.")
]
Search = Annotated[list[Path] | None, typer.Option(metavar="FOLDER", help="Look for the application's files there.")]
WorkClaim = Annotated[
    str | None, typer.Option(metavar="NAME", help="PersistentVolumeClaim of the working directory; results stay there.")
]
Secret = Annotated[str | None, typer.Option(metavar="NAME", help="Secret with the application's secret variables.")]
Check = Annotated[bool, typer.Option("--check", help="Change nothing; have the cluster check what would be created.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def _described(
    plan: Path, search: Sequence[Path] | None, pairs: dict[str, Sequence[str]], **values: Any
) -> "Described":
    from modak_deploy.kubernetes.commands import Described
    from modak_deploy.manifest import placement_of

    return Described.read(plan, placement_of(values, pairs), search or [])


def _say(line: str) -> None:
    print(visible(line), file=sys.stderr)


@app.command()
def deploy(
    plan: PlanFile,
    namespace: Namespace = "default",
    context: Context = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Kueue's LocalQueue, which starts the Job.")] = None,
    node_selector: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Label that the node must have; repeatable.")
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="PersistentVolumeClaim and where it is mounted; repeatable."),
    ] = None,
    work_claim: WorkClaim = None,
    secret: Secret = None,
    pull_secret: Annotated[str | None, typer.Option(metavar="NAME", help="Secret to pull the image with.")] = None,
    gpu: Annotated[str, typer.Option(metavar="VENDOR", help="Vendor of the GPUs: nvidia or amd.")] = "nvidia",
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the results go.")] = Path("results"),
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end, and fetch the results.")] = True,
    timeout: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Longest time to wait.")] = None,
    search: Search = None,
    check: Check = False,
    json: Json = False,
) -> None:
    """Create the Job of a Plan once, wait for its end, and fetch its results; a second run changes nothing."""
    from modak_deploy.kubernetes.api import Cluster
    from modak_deploy.kubernetes.commands import deploy as run

    values = {"namespace": namespace, "queue": queue, "work_claim": work_claim, "secret": secret}
    values |= {"pull_secret": pull_secret, "gpu": gpu}
    described = _described(plan, search, {"node_selector": node_selector or [], "claims": claim or []}, **values)
    value = run(described, Cluster(context), _say, results=results, wait=wait, timeout=timeout, check=check)
    if json:
        print(json_text.dumps(value))
        return
    state = "would be created" if check and value["changed"] else value.get("state", "created")
    where = f"; results in {value['results']}" if "results" in value else ""
    print(visible(f"{value['name']}: {state}{where}{'' if value['changed'] else ' (unchanged)'}"))


@app.command()
def logs(
    plan: PlanFile,
    namespace: Namespace = "default",
    context: Context = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="Last lines to show.")] = 200,
    search: Search = None,
) -> None:
    """Show what the program has printed."""
    from modak_deploy.kubernetes.api import Cluster
    from modak_deploy.kubernetes.commands import logs as read

    described = _described(plan, search, {}, namespace=namespace)
    print(visible(read(described, Cluster(context), lines).decode(errors="replace")), end="")


@app.command()
def undeploy(
    plan: PlanFile,
    namespace: Namespace = "default",
    context: Context = None,
    search: Search = None,
    check: Check = False,
) -> None:
    """Cancel the Job of a Plan and delete it with its pods and its ConfigMap; the results here stay."""
    from modak_deploy.kubernetes.api import Cluster

    described = _described(plan, search, {}, namespace=namespace)
    doomed = described.on(Cluster(context)).remove(_say, dry=check)
    for thing in doomed:
        print(visible(f"- {thing}"))
    print("would be removed" if doomed and check else "removed" if doomed else "nothing to remove")
