"""The commands ``modak deploy|undeploy|status|logs|cancel|results|why``; each imports what it needs when it runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_deploy.options import Config, Extra, Results, Search

if TYPE_CHECKING:
    from modak_deploy.deploy.selection import Arguments

DOCUMENTS = (".yml", ".yaml")


def complete_runs(incomplete: str) -> Iterator[str]:
    """Yield the runs in the results folder and the documents here, for the completion of the shell."""
    folder, _, start = incomplete.rpartition("/")
    if not folder:
        yield from (
            path.parent.name for path in Path("results").glob("*/plan.json") if path.parent.name.startswith(start)
        )
    for path in Path(folder or ".").glob(f"{start}*"):
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in DOCUMENTS:
            yield str(path)


Documents = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Deployment documents; sections of a later one replace those of earlier ones.",
        autocompletion=complete_runs,
    ),
]
Run = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|RUN",
        help="Deployment documents, or the name of a run in the results folder.",
        autocompletion=complete_runs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write the result as JSON; on an error, its diagnostics.")]
Check = Annotated[bool, typer.Option("--check", "-C", help="Only show what would be done.")]
Diff = Annotated[bool, typer.Option("--diff", "-D", help="Show what is new or removed, such as the job script.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (deploy, status, logs, cancel, results, undeploy, why):
        app.command()(command)


def _arguments(
    names: list[str],
    extra: list[str] | None,
    results_: Path | None,
    search: list[Path] | None,
    config: Path | None,
    **options: object,
) -> "Arguments":
    from modak_deploy.deploy.selection import Arguments

    given = {"results": None if results_ is None else str(results_), **options}
    options = {name: value for name, value in given.items() if value is not None}
    return Arguments(names, extra or [], search or [], config, options)


def _seconds(text: str | None) -> int | None:
    from modak_deploy.errors import InputError
    from modak_deploy.model.base import parse_duration

    try:
        return None if text is None else int(parse_duration(int(text) if text.isdecimal() else text))
    except ValueError as error:
        raise InputError(str(error), source="--timeout") from None


def deploy(
    documents: Documents,
    wait: Annotated[
        bool | None,
        typer.Option("--wait/--no-wait", help="Wait for the job's end and fetch its results.", show_default="--wait"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest time to wait, such as 90 or 30m; the job continues.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Plan and run again although nothing has changed.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show the job's output while it runs.")] = False,
    record: Annotated[
        bool | None,
        typer.Option("--record/--no-record", help="Add the job's times to your measurements.", show_default=False),
    ] = None,
    secret_commands: Annotated[
        bool, typer.Option("--secret-commands", help="Run the commands that secret_environment names.")
    ] = False,
    check: Check = False,
    diff: Diff = False,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Plan an application, run it on its target, and fetch its results; a second run changes nothing."""
    from modak_deploy.deploy.deploy import Mode
    from modak_deploy.deploy.deploy import deploy as run
    from modak_deploy.deploy.screen import Screen

    options = {
        "wait": wait,
        "timeout_seconds": _seconds(timeout),
        "force": force or None,
        "record": record,
        "secret_commands": secret_commands or None,
    }
    arguments = _arguments(documents, extra, results, search, config, **options)
    raise typer.Exit(run(arguments, Mode(check, diff, follow), Screen(json=json)))


def status(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|RUN",
            help="Deployment documents, or names of runs in the results folder; all of them when absent.",
            autocompletion=complete_runs,
        ),
    ] = None,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the state of runs and of their jobs."""
    from modak_deploy.deploy.jobs import status as run
    from modak_deploy.deploy.screen import Screen

    raise typer.Exit(run(_arguments(runs or [], extra, results, search, config), Screen(json=json)))


def logs(
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job has ended.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=10_000_000, help="Last lines to show.")] = 200,
    error: Annotated[bool, typer.Option("--error", help="Show standard error, if it has a file of its own.")] = False,
    task: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="Task of a job array.")] = None,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the output of a job."""
    from modak_deploy.deploy.jobs import logs as show
    from modak_deploy.deploy.screen import Screen
    from modak_deploy.errors import InputError

    if follow and json:
        raise InputError("--follow is not supported with --json", hint="leave one of them out")
    arguments = _arguments(run, extra, results, search, config)
    screen = Screen(json=json, output=True)
    raise typer.Exit(show(arguments, screen, follow=follow, lines=lines, error=error, task=task))


def cancel(
    run: Run,
    check: Check = False,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Cancel the job of a run; its folder stays, and the next deploy runs it again."""
    from modak_deploy.deploy.jobs import cancel as stop
    from modak_deploy.deploy.screen import Screen

    raise typer.Exit(stop(_arguments(run, extra, results, search, config), Screen(json=json), check=check))


def results(
    run: Run,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Fetch the results of a job that has ended."""
    from modak_deploy.deploy.jobs import results as fetch
    from modak_deploy.deploy.screen import Screen

    raise typer.Exit(fetch(_arguments(run, extra, results, search, config), Screen(json=json)))


def undeploy(
    run: Run,
    check: Check = False,
    diff: Diff = False,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Cancel the job of a run and remove its folder on the target; the results here stay."""
    from modak_deploy.deploy.deploy import Mode
    from modak_deploy.deploy.deploy import undeploy as remove
    from modak_deploy.deploy.screen import Screen

    arguments = _arguments(run, extra, results, search, config)
    raise typer.Exit(remove(arguments, Mode(check, diff), Screen(json=json)))


def why(
    run: Run,
    extra: Extra = None,
    results: Results = None,
    search: Search = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the decision behind a run: every candidate, and the reasons."""
    from modak_deploy.deploy.jobs import why as explain
    from modak_deploy.deploy.screen import Screen

    raise typer.Exit(explain(_arguments(run, extra, results, search, config), Screen(json=json)))
