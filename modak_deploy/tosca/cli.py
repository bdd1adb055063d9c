"""The commands ``modak blueprint ...``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from modak_deploy.answers import answer
from modak_deploy.tosca.profiles import Profile
from modak_deploy.util.completion import completing

app = typer.Typer(help="Check, pack and draw TOSCA blueprints.", no_args_is_help=True, rich_markup_mode=None)
Blueprint = Annotated[Path, typer.Argument(readable=False, metavar="FILE", help="The blueprint.")]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", "-i", metavar="FILE", help="YAML or JSON file with values of inputs.")
]


def _templates() -> list[str]:
    from modak_deploy.tosca.package import shipped

    return list(shipped())


@app.command()
def validate(
    file: Blueprint,
    inputs: Inputs = None,
    profile: Annotated[
        Profile,
        typer.Option("--for", help="Judge by TOSCA 1.3 and this orchestrator or parser; by each of them with 'all'."),
    ] = "opera",
    portability: Annotated[
        bool, typer.Option("--portability", help="Also report what other orchestrators and parsers reject.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all diagnostics as a JSON list.")] = False,
) -> None:
    """Check a blueprint before anything runs; every error is reported with its file, line, node and property.

    The exit code depends on errors only.
    """
    from modak_deploy.diagnostics import as_json
    from modak_deploy.errors import InputError
    from modak_deploy.tosca.notices import notices
    from modak_deploy.tosca.validate import examine, read_inputs

    findings = examine(file, read_inputs(inputs) if inputs else None, profile)
    notes = findings.notes if portability else []
    unused = [] if findings.errors else list(notices(findings.service))
    if json:
        print(as_json([*findings.errors, *(note.as_warning() for note in notes), *unused]))
        raise typer.Exit(InputError.exit_code if findings.errors else 0)
    for note in notes:
        print(f"{note} [not portable: {', '.join(note.rejected_by)}]", file=sys.stderr)
    if findings.errors:
        raise InputError(findings.errors)
    for notice in unused:
        print(notice, file=sys.stderr)
    print(f"{file}: no problems found")


@app.command()
def package(
    file: Blueprint,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The package; FILE with .csar by default.")
    ] = None,
) -> None:
    """Write a CSAR that holds a blueprint and all that it needs, for other orchestrators and other machines."""
    from modak_deploy.tosca.package import write_csar

    target = output or Path(f"{file.stem}.csar")
    names = write_csar(file, target)
    answer({"package": target, "files": names}, f"{target}: {len(names)} files")


@app.command()
def draw(
    file: Blueprint,
    inputs: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there; the ending .svg gives a drawing."),
    ] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Give SVG rather than Mermaid text.")] = False,
) -> None:
    """Draw what runs where and what waits for what, as Mermaid text or as SVG."""
    from modak_deploy.outputs import write_output
    from modak_deploy.tosca import draw as pictures

    service, values = _checked(file, inputs)
    make: Callable[[Any], str] = pictures.svg if svg or (output and output.suffix == ".svg") else pictures.mermaid
    text = make(pictures.picture(service, values))
    if output is None:
        answer({"format": "svg" if make is pictures.svg else "mermaid", "text": text}, text)
    else:
        write_output(output, text, inputs=[*service.files, *filter(None, [inputs])])
        answer({"written": output})


@app.command(name="list")
def list_shipped() -> None:
    """List the blueprints that come with modak."""
    from modak_deploy.documents import read_document
    from modak_deploy.tosca.package import shipped

    about = {
        name: " ".join(str(read_document(path).data.get("description", "")).split()) for name, path in shipped().items()
    }
    value = [{"name": name, "description": text} for name, text in about.items()]
    answer(value, "".join(f"{name:<20} {text}\n" for name, text in about.items()))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Created when missing.")],
    template: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NAME",
            help="A blueprint of 'modak blueprint list'.",
            autocompletion=completing(_templates),
        ),
    ] = "digits-machine",
) -> None:
    """Copy a blueprint, its files and the type library into a folder of your own."""
    from modak_deploy.tosca.package import start_from

    path = start_from(template, folder)
    answer({"blueprint": path}, str(path))


@app.command()
def create(
    document: Annotated[Path, typer.Argument(readable=False, metavar="DOCUMENT", help="A deployment document.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
) -> None:
    """Write a blueprint for a deployment document into a folder, with its files and the type library."""
    from modak_deploy.tosca.compose import write_blueprint

    path = write_blueprint(document, folder)
    answer({"blueprint": path}, str(path))


def _checked(file: Path, inputs: Path | None) -> tuple[Any, dict[str, Any]]:
    """Return the service and the inputs; InputError has the problems."""
    from modak_deploy.errors import InputError
    from modak_deploy.tosca.service import load
    from modak_deploy.tosca.validate import read_inputs
    from modak_deploy.tosca.validate import validate as check

    values = read_inputs(inputs) if inputs else None
    if diagnostics := check(file, values):
        raise InputError(diagnostics)
    return load(file), values or {}
