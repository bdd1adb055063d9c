"""The commands of ``modak image``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from modak_deploy.catalogue.cli import Kind, complete
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.base import RuntimeName
from modak_deploy.options import Config
from modak_deploy.util.completion import completing
from modak_deploy.util.text import either, nearest

app = typer.Typer(help="Inspect, define, build, pull, verify, push and prune container images.", no_args_is_help=True)


def _runtime(name: str) -> str:
    if name in RUNTIMES:
        return name
    raise typer.BadParameter(f"'{name}' is not {either(RUNTIMES.names())}{nearest(name, RUNTIMES.names())}")


Name = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE", help="A name of the catalogue, or a reference.", autocompletion=complete(Kind.IMAGES)
    ),
]
Catalogue = Annotated[
    list[Path] | None, typer.Option("--catalogue", metavar="FOLDER", help="A site's catalogue folder; repeatable.")
]
Document = Annotated[
    Path | None,
    typer.Option(
        "--target",
        "-t",
        readable=False,
        metavar="FILE",
        help="Deployment document whose target it is; this machine if absent.",
    ),
]
Images = Annotated[str | None, typer.Option("--images", metavar="FOLDER", help="Image folder on the target.")]
Runtime = Annotated[
    RuntimeName,
    typer.Option(
        "--runtime",
        "-r",
        metavar="NAME",
        parser=_runtime,
        autocompletion=completing(RUNTIMES.names),
        help=f"Container runtime on the target: {', '.join(RUNTIMES.builtin)}, or one that is installed.",
    ),
]
Compression = Annotated[
    str | None,
    typer.Option(
        "--compression",
        help="gzip, zstd, lz4 or none: size against the time to start.",
        autocompletion=completing(lambda: ("gzip", "zstd", "lz4", "none")),
    ),
]
Microarchitecture = Annotated[
    str | None,
    typer.Option("--microarchitecture", "-m", metavar="NAME", help="What a source build is compiled for; or 'host'."),
]


@app.command()
def inspect(name: Name, catalogue: Catalogue = None) -> None:
    """Show what the catalogue and the registry hold on an image, beginning with its digest."""
    from modak_deploy.images import commands

    commands.show(name, catalogue or [])


@app.command()
def define(
    name: Name,
    catalogue: Catalogue = None,
    microarchitecture: Microarchitecture = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write both forms and their files there.")
    ] = None,
    form: Annotated[
        Literal["apptainer", "containerfile"], typer.Option("--form", help="Which definition to print.")
    ] = "apptainer",
) -> None:
    """Write the definition that an image of the catalogue is built from."""
    from modak_deploy.images import commands

    commands.define(name, catalogue or [], commands.microarchitecture(microarchitecture), output, form)


@app.command()
def build(
    name: Name,
    document: Document = None,
    runtime: Runtime = "apptainer",
    compression: Compression = None,
    microarchitecture: Microarchitecture = None,
    network: Annotated[
        bool, typer.Option("--network", help="The build asks the package index itself, not this machine.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop waiting after so long.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show the build's log as it grows.")] = False,
    images: Images = None,
    catalogue: Catalogue = None,
    config: Config = None,
) -> None:
    """Build an image as a job on the target, once: what was finished or cached before is not made again."""
    from modak_deploy.images import commands
    from modak_deploy.images.ensure import Wish

    wish = Wish(runtime, compression, commands.microarchitecture(microarchitecture), network=network, timeout=timeout)
    with commands.destination_of(document, config, images, catalogue or []) as address:
        commands.build(name, address, wish, follow=follow)


@app.command()
def pull(
    name: Name,
    document: Document = None,
    runtime: Runtime = "apptainer",
    compression: Compression = None,
    images: Images = None,
    catalogue: Catalogue = None,
    config: Config = None,
) -> None:
    """Pull an image to the target by its digest, once, and verify it."""
    from modak_deploy.images import commands
    from modak_deploy.images.ensure import Wish

    with commands.destination_of(document, config, images, catalogue or []) as address:
        commands.pull(name, address, Wish(runtime, compression))


@app.command()
def verify(
    name: Annotated[str, typer.Argument(metavar="IMAGE", help="Name, reference, a SIF on the target, or a Plan file.")],
    document: Document = None,
    runtime: Runtime = "apptainer",
    microarchitecture: Microarchitecture = None,
    key: Annotated[
        list[Path] | None,
        typer.Option("--key", metavar="FILE", help="It must be signed with one of these public keys."),
    ] = None,
    images: Images = None,
    catalogue: Catalogue = None,
    config: Config = None,
) -> None:
    """Check hash, processor, labels and signature of an image on the target."""
    from modak_deploy.images import commands
    from modak_deploy.images.ensure import Wish

    wish = Wish(runtime, microarchitecture=commands.microarchitecture(microarchitecture))
    with commands.destination_of(document, config, images, catalogue or []) as address:
        commands.verify(name, address, wish, key or [])


@app.command()
def push(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A SIF on the target, or a name in podman's store.")],
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="oras:// for a SIF, docker:// for podman.")],
    document: Document = None,
    runtime: Runtime = "apptainer",
    config: Config = None,
) -> None:
    """Send an image of the target to a registry; prints the reference with its digest."""
    from modak_deploy.images import commands

    with commands.destination_of(document, config, None) as address:
        commands.push(source, reference, address, runtime)


@app.command()
def gc(
    document: Document = None,
    days: Annotated[int, typer.Option("--days", min=0, help="Keep what was used within so many days.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would be removed.")] = False,
    images: Images = None,
    config: Config = None,
) -> None:
    """Remove images that nobody has used for some time and that no queued or running job needs."""
    from modak_deploy.images import commands

    with commands.destination_of(document, config, images) as address:
        commands.collect(address, days, dry=dry_run)
