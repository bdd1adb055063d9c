"""The command ``modak benchmark``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _DefaultGroup(TyperGroup):
    """A group whose command ``run`` need not be named: ``modak benchmark DOCUMENT``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click: insert ``run`` before anything that names no command and asks for no help."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_DefaultGroup, no_args_is_help=True, rich_markup_mode=None, help="Measure configurations against the default."
)
Least = Annotated[int | None, typer.Option("--least", help="Rounds that are made in any case; 5 when absent.")]
Most = Annotated[int | None, typer.Option("--most", help="Rounds after which it ends; 30 when absent.")]
Width = Annotated[
    float | None, typer.Option(help="End when each mean is known to this share of it (95 %); 0.03 when absent.")
]
Limit = Annotated[
    str | None, typer.Option("--limit", metavar="TIME", help="No round begins after it, such as 30m; 1h when absent.")
]
Seed = Annotated[int | None, typer.Option(help="Of the order within the rounds; 1 when absent.")]
Others = Annotated[
    float | None,
    typer.Option(help="Share of the processors that others may use before a run is repeated; 0.1 when absent."),
]


@app.command()
def run(
    documents: Annotated[list[Path], typer.Argument(metavar="DOCUMENT...", help="Deployment documents.")],
    configuration: Annotated[
        list[str] | None,
        typer.Option("--configuration", metavar="NAME", help="A candidate, as 'modak plan --explain' names it."),
    ] = None,
    lever: Annotated[
        list[str] | None, typer.Option("--lever", metavar="NAME", help="The default with this lever added.")
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", metavar="NAME", help="The default in this image of the catalogue.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All candidates, at most 24.")] = False,
    least: Least = None,
    most: Most = None,
    width: Width = None,
    limit: Limit = None,
    seed: Seed = None,
    others: Others = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Relative difference from the default's results that is allowed.")
    ] = None,
    compare: Annotated[bool, typer.Option(help="Compare results with the default's.")] = True,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Results go to a folder of the run's name there.")] = (
        Path("results")
    ),
    record: Annotated[bool, typer.Option("--record", help="Add what was measured to the measurement store.")] = False,
    config: Annotated[Path | None, typer.Option("--ssh-config", metavar="FILE", help="SSH configuration.")] = None,
) -> None:
    """Measure the default, modak's choice and what is named, in interleaved rounds as one job on the target."""
    from modak.evidence.command import benchmark
    from modak.evidence.configurations import Wanted

    benchmark(
        documents,
        Wanted(configuration or [], lever or [], image or [], everything),
        {
            "least": least, "most": most, "width": width, "limit": limit, "seed": seed, "others": others,
            "tolerance": tolerance, "compare": compare,
        },
        results=results, record=record, config=config,
    )  # fmt: skip
