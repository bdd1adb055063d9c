"""``modak kubernetes``: a Plan as a Job of a cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_deploy.answers import answer
from modak_deploy.kubernetes.options import (
    Claim,
    Gpu,
    Namespace,
    NodeSelector,
    PlanFile,
    PullSecret,
    Queue,
    Search,
    Secret,
    WorkClaim,
    pairs,
)
from modak_deploy.paths import expanded

if TYPE_CHECKING:
    from modak_deploy.kubernetes.life import ClusterJob

app = typer.Typer(help="Run Plans as Jobs of a Kubernetes cluster.", no_args_is_help=True, rich_markup_mode=None)

Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Context in KUBECONFIG, in place of the current one.")
]
Check = Annotated[bool, typer.Option("--check", help="Change nothing; have the cluster check what would be created.")]
CheckRemoval = Annotated[bool, typer.Option("--check", help="Change nothing; show what would be deleted.")]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _job(plan: Path, namespace: str, context: str | None) -> "ClusterJob":
    from modak_deploy.kubernetes.api import Cluster
    from modak_deploy.kubernetes.commands import job_of
    from modak_deploy.manifest import placement_of, read_plan

    placement = placement_of({"namespace": namespace}, {})
    return job_of(read_plan(plan), placement, Cluster(context))


@app.command()
def deploy(
    plan: PlanFile,
    namespace: Namespace = "default",
    context: Context = None,
    queue: Queue = None,
    node_selector: NodeSelector = None,
    claim: Claim = None,
    work_claim: WorkClaim = None,
    secret: Secret = None,
    pull_secret: PullSecret = None,
    gpu: Gpu = "nvidia",
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the results go.")] = Path("results"),
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end, and fetch the results.")] = True,
    timeout: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Longest time to wait.")] = None,
    search: Search = None,
    check: Check = False,
) -> None:
    """Create the Job of a Plan once, wait for its end, and fetch its results; a second run changes nothing."""
    from modak_deploy.errors import JobError
    from modak_deploy.kubernetes.api import Cluster
    from modak_deploy.kubernetes.commands import Described, text_of
    from modak_deploy.kubernetes.commands import deploy as run
    from modak_deploy.manifest import placement_of

    values = {"namespace": namespace, "queue": queue, "work_claim": work_claim, "secret": secret}
    values |= {"pull_secret": pull_secret, "gpu": gpu}
    placement = placement_of(values, pairs(node_selector, claim))
    described = Described.read(plan, placement, search or [])
    ran = run(
        described,
        Cluster(context),
        _say,
        results=expanded(results).absolute(),
        wait=wait,
        timeout=timeout,
        check=check,
    )
    if ran.problem:
        raise JobError(ran.problem)
    value = {"changed": ran.changed, "name": ran.job.name, "namespace": namespace, "check": check, "job": ran.result}
    answer(value, text_of(ran, check=check))


@app.command()
def status(plan: PlanFile, namespace: Namespace = "default", context: Context = None) -> None:
    """Show the state of the Job of a Plan."""
    from modak_deploy.kubernetes.commands import result_of, state_text
    from modak_deploy.manifest import read_plan

    job = _job(plan, namespace, context)
    result = result_of(read_plan(plan), job.look())
    answer({"name": job.name, "namespace": namespace, "job": result}, f"{job.name}: {state_text(result)}")


@app.command()
def logs(
    plan: PlanFile,
    namespace: Namespace = "default",
    context: Context = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="Last lines to show.")] = 200,
) -> None:
    """Show what the program has printed."""
    from modak_deploy.kubernetes.commands import logs as read

    text = read(_job(plan, namespace, context), lines).decode(errors="replace")
    answer({"output": text}, text)


@app.command()
def undeploy(
    plan: PlanFile, namespace: Namespace = "default", context: Context = None, check: CheckRemoval = False
) -> None:
    """Cancel the Job of a Plan and delete it with its pods and its ConfigMap; the results here stay."""
    doomed = _job(plan, namespace, context).remove(_say, dry=check)
    end = "would be removed" if check else "removed"
    text = "".join(f"- {thing}\n" for thing in doomed) + (end if doomed else "nothing to remove")
    answer({"changed": bool(doomed), "check": check, "removed": doomed}, text)
