"""The command modak. Each command imports what it needs when it runs, so that the short ones are quick."""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from modak import __version__
from modak.errors import ModakError
from modak.terminal import protected_output

SECTIONS = {
    "catalogue": "modak.catalogue.cli:app",
    "measurements": "modak.performance.cli:measurements",
    "model": "modak.optimiser.cli:model",
    "image": "modak.images.cli:app",
    "blueprint": "modak.tosca.cli:app",
}
"""Commands with commands of their own, by the module and the name of their Typer application."""
Config = Annotated[
    Path | None, typer.Option("--ssh-config", metavar="FILE", help="SSH configuration in place of your own.")
]
app = typer.Typer(
    name="modak",
    help="Plan, deploy and tune AI and HPC applications.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error is told on stderr and is the exit code, as modak.errors says."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Imports make objects that stay: to look through them again and again takes 5 to 10 % of a Plan's processor time.
    gc.set_threshold(200_000)
    with protected_output():
        try:
            _mount(words)
            app(words, prog_name="modak")
        except ModakError as error:
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)


def _mount(words: Sequence[str]) -> None:
    """Add the section that is called for; all of them where none is, as for --help."""
    command = next((word for word in words if not word.startswith("-")), None)
    if command is None and "--version" in words:
        return
    known = {registered.name for registered in app.registered_groups}
    for name, place in SECTIONS.items():
        module, _, attribute = place.partition(":")
        if name not in known and (command == name or command is None) and find_spec(module) is not None:
            app.add_typer(getattr(import_module(module), attribute), name=name)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"modak {__version__}")
        raise typer.Exit


@app.command()
def plan(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Deployment documents, a later one's sections replacing those before; or a JSON job."
        ),
    ],
    explain: Annotated[bool, typer.Option("--explain", help="Show every candidate and every rejected one.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole Plan as JSON.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the Plan there; for a JSON job, a folder for its scripts."
        ),
    ] = None,
    search: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Look for the application's files there before the document's folder."),
    ] = None,
    site: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File or folder that describes the sites which a JSON job names."),
    ] = None,
    config: Config = None,
) -> None:
    """Decide how to run an application on its target, and say why; nothing is submitted."""
    from modak.commands import write_plan

    write_plan(
        documents, search=search or [], config=config, explain=explain, json=json, output=output, sites=site or []
    )


@app.command()
def tune(
    documents: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Deployment documents, a later one's sections replacing those before."),
    ],
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Jobs at most, besides the one that confirms.")] = 8,
    batch: Annotated[int, typer.Option(min=1, max=50, help="Candidates in a job.")] = 6,
    budget: Annotated[int, typer.Option(min=10, max=86400, help="Seconds of trials in a job.")] = 120,
    confirm: Annotated[int, typer.Option(min=2, max=20, help="Fresh runs of the winner and the default.")] = 3,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="For the results of the jobs.")] = Path("results"),
    search: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Look for the application's files there before the document's folder."),
    ] = None,
    config: Config = None,
) -> None:
    """Search for the fastest levers of an application on its target, by trials in jobs of their own."""
    from modak.tuning.command import write_tuning
    from modak.tuning.search import Options

    options = Options(rounds=rounds, batch=batch, budget=budget, confirm=confirm)
    write_tuning(documents, search=search or [], config=config, results=results, options=options)


@app.command()
def discover(
    host: Annotated[str | None, typer.Argument(metavar="[USER@]HOST", help="This machine when absent.")] = None,
    name: Annotated[str | None, typer.Option(help="The target's name; the host's when absent.")] = None,
    facts: Annotated[bool, typer.Option("--facts", help="Print all that was found, as JSON.")] = False,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare the targets of a document or blueprint with what they tell."),
    ] = None,
    config: Config = None,
) -> None:
    """Find out what a machine or a cluster's login node offers; prints the target section of a document."""
    from modak.commands import compare_targets, write_target

    if check is None:
        write_target(host, name=name, facts=facts, config=config)
    elif host is None and name is None and not facts:
        compare_targets(check, config=config)
    else:
        raise typer.BadParameter("it takes no other options and no host: the document names them", param_hint="--check")


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(metavar="NAME", help="plan, application, target, request, job, ...")],
) -> None:
    """Print the JSON schema of a document or of a part of one."""
    from modak.commands import write_schema

    write_schema(kind)


if __name__ == "__main__":
    main()
