"""The commands ``modak catalogue list|show|validate|add|import-prices|schema``."""

import json as json_text
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from modak_deploy.answers import answer
from modak_deploy.errors import InputError
from modak_deploy.terminal import visible
from modak_deploy.util.completion import completing

app = typer.Typer(
    no_args_is_help=True,
    help="List, check and extend the catalogue of levers, images and hardware.",
    rich_markup_mode=None,
)
Site = Annotated[
    list[str] | None,
    typer.Option("--catalogue", "-c", metavar="LOCATION", help="A site's folder, file or URL on top; may be repeated."),
]


class Kind(StrEnum):
    """What a catalogue has."""

    LEVERS = "levers"
    IMAGES = "images"
    ACCELERATORS = "accelerators"
    PROCESSORS = "processors"
    WORKLOADS = "workloads"
    INSTANCES = "instances"


def complete(*kinds: Kind) -> Callable[[str], list[str]]:
    """Return the completion for names of the shipped catalogue, of these kinds or of all."""

    def names() -> Iterator[str]:
        from modak_deploy.catalogue.listing import rows
        from modak_deploy.catalogue.site import catalogue_for

        catalogue = catalogue_for([])
        for kind in kinds or Kind:
            yield from (name.strip() for _, name, _ in rows(catalogue, kind.value, None))

    return completing(names)


@app.command("list")
def list_entries(
    kind: Annotated[Kind | None, typer.Argument(help="All kinds when absent.")] = None,
    framework: Annotated[str | None, typer.Option(help="Only images of this framework.")] = None,
    catalogue: Site = None,
) -> None:
    """List the entries, one on each line: kind, name, and what it is."""
    from modak_deploy.catalogue.listing import rows
    from modak_deploy.catalogue.site import catalogue_for

    entries = list(rows(catalogue_for(catalogue or []), kind.value if kind else None, framework))
    value = [dict(zip(("kind", "name", "about"), map(str.strip, row), strict=True)) for row in entries]
    answer(value, "".join("  ".join(row).rstrip() + "\n" for row in entries))


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="Name of a lever, an image, an accelerator or a processor.", autocompletion=complete()),
    ],
    catalogue: Site = None,
) -> None:
    """Print an entry as YAML, as it would stand in a catalogue file."""
    from modak_deploy.catalogue.listing import as_text, entry
    from modak_deploy.catalogue.site import catalogue_for

    entries = entry(catalogue_for(catalogue or []), name)
    answer(entries, as_text(entries))


@app.command()
def validate(
    locations: Annotated[list[str], typer.Argument(metavar="LOCATION...", help="Folders, files, URLs.")],
    json: Annotated[bool, typer.Option("--json", help="Print all diagnostics as a JSON list.")] = False,
) -> None:
    """Check files on their own and together with the shipped catalogue; every error is reported with its line."""
    from modak_deploy.catalogue.checking import check_images, check_instances
    from modak_deploy.catalogue.site import catalogue_for

    try:
        catalogue = catalogue_for(locations)
    except InputError as error:  # of a location; no document has named it
        named = ("request", "catalogue")
        raise error.mapped(lambda d: replace(d, path=()) if d.path == named and not d.source else d) from None
    check_images(catalogue)
    check_instances(catalogue)
    if json:
        typer.echo("[]")
        return
    counts = ((len(catalogue.levers), "levers"), (len(catalogue.images), "images"))
    typer.echo(f"no problems found: with the shipped entries {' and '.join(f'{n} {what}' for n, what in counts)}")


@app.command()
def add(
    file: Annotated[Path, typer.Argument(readable=False, metavar="FILE", help="levers*.yaml, images*.yaml, ...")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The site's catalogue folder; made when absent.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file of the same name.")] = False,
) -> None:
    """Put a checked file, and the launchers beside it that it names, into a site's catalogue folder."""
    from modak_deploy.catalogue.listing import add_file

    paths = add_file(file, folder, replace=replace)
    answer({"written": paths}, "".join(f"written: {path}\n" for path in paths))


@app.command("import-prices")
def import_prices(
    file: Annotated[
        Path, typer.Argument(readable=False, metavar="FILE", help="AWS's price list of EC2 for a region, index.json.")
    ],
    region: Annotated[str, typer.Option(metavar="REGION", help="The provider's name of the region.")],
) -> None:
    """Print a catalogue file of instance types with the prices of a provider's price list."""
    import yaml

    from modak_deploy.catalogue.awsprices import read_price_list

    text, left = read_price_list(file, region)
    answer(yaml.safe_load(text), text)
    for line in left:
        typer.echo(f"left out: {visible(line)}", err=True)


@app.command()
def schema(
    kind: Annotated[Kind, typer.Argument(help="Which kind of file.")],
) -> None:
    """Print the JSON schema of a catalogue file."""
    from modak_deploy.catalogue.listing import schema_of

    value = schema_of(kind.value)
    answer(value, json_text.dumps(value, indent=2))
