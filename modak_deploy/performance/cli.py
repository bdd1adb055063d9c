"""The commands ``modak measurements import|record|export|list|show|forget``."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from modak_deploy.answers import answer
from modak_deploy.performance.paths import STORE_VARIABLE
from modak_deploy.util.completion import completing

measurements = typer.Typer(
    no_args_is_help=True, help="The measurements that decisions are based on.", rich_markup_mode=None
)
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar=STORE_VARIABLE,
        metavar="ADDRESS",
        show_envvar=True,
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE; a file in your data folder when absent.",
    ),
]


def workloads() -> Iterator[str]:
    """Yield the workloads of the shipped measurements and of the store."""
    from modak_deploy.performance.listing import listed

    for shipped in (True, False):
        yield from (str(entry["workload"]) for entry in listed(None, workload=None, shipped=shipped))


Workload = Annotated[
    str | None,
    typer.Option("--workload", "-w", help="Only those of this workload.", autocompletion=completing(workloads)),
]


@measurements.command("import")
def import_files(
    files: Annotated[
        list[Path], typer.Argument(readable=False, metavar="FILE...", help="Files with one JSON record on each line.")
    ],
    store: Store = None,
) -> None:
    """Check files and add their records to the store; nothing is added when any record is wrong."""
    from modak_deploy.performance.records import read_records
    from modak_deploy.performance.store import Store as Opened

    records = [record for path in files for record in read_records(path)]
    opened = Opened(store)
    new, present = opened.add(records)
    _added(new, present, opened.name)


@measurements.command()
def record(
    folders: Annotated[
        list[Path], typer.Argument(readable=False, metavar="FOLDER...", help="Results of jobs, such as results/digits.")
    ],
    first: Annotated[str, typer.Option(help="Key of the metrics with the seconds of the first unit.")] = (
        "first_epoch_seconds"
    ),
    later: Annotated[str, typer.Option(help="Key of the metrics with the list of seconds of each later unit.")] = (
        "later_epoch_seconds"
    ),
    store: Store = None,
) -> None:
    """Add the times of deployed jobs to the store, for later Plans."""
    from modak_deploy.catalogue.catalogue import load_catalogue
    from modak_deploy.performance.recording import add_results

    _added(*add_results(folders, load_catalogue(), store, first=first, later=later))


def _added(new: int, present: int, store: str) -> None:
    """Say what was added, and let the time model keep up with it."""
    value = {"new": new, "known_already": present, "store": store}
    answer(value, f"{new} new, {present} known already, in {store}")
    if new:
        _refit()


def _refit() -> None:
    """Let the time model keep up with what the store has now."""
    from modak_deploy.performance.refitting import keep_current

    keep_current(partial(typer.echo, err=True))


def _check_origin(context: typer.Context, shipped: bool) -> None:
    """Raise InputError where a store is named on the command line and what modak ships is asked for."""
    source = context.get_parameter_source("store")
    if shipped and source is not None and source.name == "COMMANDLINE":
        from modak_deploy.errors import InputError

        raise InputError("--shipped cannot be combined with --store")


@measurements.command()
def export(
    context: typer.Context,
    output: Annotated[Path | None, typer.Argument(metavar="FILE", help="Standard output when absent, or -.")] = None,
    workload: Workload = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The measurements that ship with modak, in place of the store.")
    ] = False,
    store: Store = None,
) -> None:
    """Write records as JSON lines, in an order that depends only on them."""
    from modak_deploy.outputs import write_output
    from modak_deploy.performance.listing import export_lines

    _check_origin(context, shipped)
    lines = list(export_lines(store, workload=workload, shipped=shipped))
    text = "".join(lines)
    if output is None or str(output) == "-":
        answer([json.loads(line) for line in lines], text)
        return
    write_output(output, text)
    answer({"written": output, "records": len(lines)})


@measurements.command("list")
def list_records(
    context: typer.Context,
    workload: Workload = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The measurements that ship with modak, in place of the store.")
    ] = False,
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON list.")] = False,
) -> None:
    """List records, one on each line, with the median seconds of their runs."""
    from modak_deploy.performance.listing import list_lines, listed

    _check_origin(context, shipped)
    if as_json:
        typer.echo(json.dumps(listed(store, workload=workload, shipped=shipped), indent=2, ensure_ascii=False))
        return
    lines = list(list_lines(store, workload=workload, shipped=shipped))
    for line in lines:
        typer.echo(line)
    if not lines:
        typer.echo("no measurements; --shipped lists those that ship with modak", err=True)


@measurements.command()
def show(
    ids: Annotated[list[int], typer.Argument(metavar="ID", help="As the list shows them.")],
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON list.")] = False,
) -> None:
    """Show whole records."""
    from modak_deploy.performance.listing import show_lines

    records = show_lines(store, ids)
    typer.echo(f"[{', '.join(records)}]" if as_json else "\n".join(records))


@measurements.command()
def forget(
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="As the list shows them.")] = None,
    workload: Workload = None,
    source: Annotated[str | None, typer.Option(help="Only those whose source has this text in it.")] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Only those from before, as YYYY-MM-DD.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    store: Store = None,
) -> None:
    """Remove records from the store; what modak ships stays."""
    from modak_deploy.errors import InputError
    from modak_deploy.performance.listing import check_date
    from modak_deploy.performance.store import Filter
    from modak_deploy.performance.store import Store as Opened

    if blank := next((name for name, text in (("--workload", workload), ("--source", source)) if text == ""), None):
        raise InputError(f"{blank} is blank: all of them are meant by --all")
    if before is not None:
        check_date("--before", before)
    which = Filter(ids=ids or None, workload=workload, source=source, before=before)
    if bool(which.clauses()) == everything:
        raise InputError("say which ones by ID, --workload, --source or --before, or give --all alone")
    opened = Opened(store, make=False)
    number = opened.forget(which)
    answer({"forgotten": number, "store": opened.name}, f"{number} forgotten, in {opened.name}")
    if number:
        _refit()
