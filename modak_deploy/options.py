"""Options that several commands have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer


def complete_extra(incomplete: str) -> Iterator[str]:
    """Yield what ``-e`` takes."""
    from modak_deploy.documents import RunOptions
    from modak_deploy.documents.extra import SECTIONS, keys_of

    names = [f"{name}=" for name in RunOptions.model_fields]
    for section in SECTIONS:
        names += [f"{section}.{key}=" for key in keys_of(section)]
    yield from (name for name in names if name.startswith(incomplete))


Extra = Annotated[
    list[str] | None,
    typer.Option(
        "--extra",
        "-e",
        metavar="KEY=VALUE",
        help="Option of the run, or key of a document such as job.wall_time=30m. The value is JSON or text, and never "
        "a template.",
        autocompletion=complete_extra,
    ),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results", "-r", readable=False, metavar="FOLDER", help="Folder for results; 'results' when absent."
    ),
]
Search = Annotated[
    list[Path] | None,
    typer.Option("--search", metavar="FOLDER", help="Look for files there before the document's folder."),
]
Config = Annotated[
    Path | None, typer.Option("--ssh-config", metavar="FILE", help="SSH configuration in place of your own.")
]
