"""The commands ``modak benchmark DOCUMENT`` and ``modak benchmark study``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from modak_deploy.catalogue.cli import Kind, complete
from modak_deploy.options import Config, Extra, Results


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
Least = Annotated[int | None, typer.Option("--least", help="Minimum number of rounds; 5 when absent.")]
Most = Annotated[int | None, typer.Option("--most", help="Maximum number of rounds; 30 when absent.")]
Width = Annotated[
    float | None,
    typer.Option(help="End when the 95 % interval of each mean is within this share of it; 0.03 when absent."),
]
Limit = Annotated[
    str | None, typer.Option("--limit", metavar="TIME", help="No round begins after it, such as 30m; 1h when absent.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of the order within the rounds; 1 when absent.")]
Others = Annotated[
    float | None,
    typer.Option(
        help="Share of the processors that other processes may use before a run is repeated; 0.1 when absent."
    ),
]


@app.command()
def run(
    documents: Annotated[
        list[Path], typer.Argument(readable=False, metavar="DOCUMENT...", help="Deployment documents.")
    ],
    configuration: Annotated[
        list[str] | None,
        typer.Option("--configuration", metavar="NAME", help="A candidate, as 'modak plan --explain' names it."),
    ] = None,
    lever: Annotated[
        list[str] | None,
        typer.Option(
            "--lever",
            metavar="NAME",
            help="The default with this lever added.",
            autocompletion=complete(Kind.LEVERS),
        ),
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            "--image",
            metavar="NAME",
            help="The default in this image of the catalogue.",
            autocompletion=complete(Kind.IMAGES),
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All candidates, at most 24.")] = False,
    least: Least = None,
    most: Most = None,
    width: Width = None,
    limit: Limit = None,
    seed: Seed = None,
    others: Others = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Permitted relative difference from the default's results.")
    ] = None,
    compare: Annotated[bool, typer.Option(help="Compare results with the default's.")] = True,
    results: Results = None,
    extra: Extra = None,
    record: Annotated[bool, typer.Option("--record", help="Add what was measured to the measurement store.")] = False,
    config: Config = None,
) -> None:
    """Measure the default, modak's choice and what is named, in interleaved rounds as one job on the target."""
    from modak_deploy.evidence.command import benchmark
    from modak_deploy.evidence.configurations import Wanted

    benchmark(
        documents,
        Wanted(configuration or [], lever or [], image or [], everything),
        {
            "least": least, "most": most, "width": width, "limit": limit, "seed": seed, "others": others,
            "tolerance": tolerance, "compare": compare,
        },
        results=results, record=record, config=config, extra=extra or (),
    )  # fmt: skip


@app.command()
def study(
    network: Annotated[list[str] | None, typer.Option("--network", help="snn or lnn; both when absent.")] = None,
    phase: Annotated[list[str] | None, typer.Option("--phase", help="training or inference; both when absent.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="native, sif-gzip, sif-zstd, sif-lz4, sif-none, sandbox, podman, podman-rootfs, charliecloud; "
            "all when absent.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=2, help="Runs of each.")] = 100,
    images: Annotated[int, typer.Option(min=1, help="Images to train with; inference takes at most 145.")] = 1526,
    batch: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 301,
    epochs: Annotated[int | None, typer.Option(min=1, help="50 and 300 when absent, as in the study.")] = None,
    size: Annotated[int, typer.Option(min=64, help="Height and width of an image.")] = 256,
    python: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Python with Keras; the one that runs modak when absent.")
    ] = None,
    backend: Annotated[str, typer.Option(help="Backend of Keras: tensorflow, torch or jax.")] = "tensorflow",
    base: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Base system of the containers: a tar file or a folder.")
    ] = None,
    script: Annotated[Path | None, typer.Option(help="Another program that takes the same options.")] = None,
    others: Others = None,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Every repeat goes there.")] = Path("results/study"),
    work: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="For the images; 'images' in the results when absent.")
    ] = None,
) -> None:
    """Run the same work natively and in containers, as Jordan et al. did (HPEC 2019), on this machine."""
    import sys

    from modak_deploy.evidence.command import carry_out_study
    from modak_deploy.evidence.packing import KINDS
    from modak_deploy.evidence.study import NETWORKS, PHASES, Study

    carry_out_study(
        Study(
            networks=network or tuple(NETWORKS), phases=phase or PHASES, kinds=kind or KINDS, runs=runs, images=images,
            batch=batch, epochs=epochs, size=size, python=python or Path(sys.executable), base=base, script=script,
            others=0.1 if others is None else others, backend=backend,
        ),
        results,
        work or results / "images",
    )  # fmt: skip
