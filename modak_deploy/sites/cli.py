"""The commands ``modak site add|list|show|check``."""

from pathlib import Path
from typing import Annotated

import typer

from modak_deploy.answers import answer
from modak_deploy.options import Config
from modak_deploy.util.completion import completing

app = typer.Typer(
    no_args_is_help=True,
    help="Describe machines and clusters once, and use them by name.",
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON; on an error, its diagnostics.")]


def _names() -> list[str]:
    from modak_deploy.documents.sites import load_site_settings

    return list(load_site_settings().names())


@app.command()
def add(
    host: Annotated[
        str | None, typer.Argument(metavar="[USER@]HOST[:PORT]", help="Login node or machine; this one when absent.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the site; made from the host's when absent.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is, in a line.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to add it to; your own sites.yaml when absent.")
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="Add it to modak-sites.yaml in this folder.")] = False,
    minimal: Annotated[
        bool, typer.Option("--minimal", help="Leave partitions and hardware to be discovered each time.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a site of this name.")] = False,
    print_: Annotated[bool, typer.Option("--print", help="Only print what would be added.")] = False,
    config: Config = None,
) -> None:
    """Discover a login node or machine over ssh, and write its description into a file of sites."""
    from modak_deploy.documents.sitefiles import PROJECT_FILE, user_folder
    from modak_deploy.errors import InputError
    from modak_deploy.sites.adding import address_of, ask_target, settings_of
    from modak_deploy.sites.writing import check_writable, entry, write_site

    if project and file is not None:
        raise InputError("--project and --file name different files", hint="give one of them")
    path = file or (Path(PROJECT_FILE) if project else user_folder() / "sites.yaml")
    address = address_of(host, name)
    if not print_:
        check_writable(path, address.name, replace=replace)
    settings = settings_of(ask_target(address, None, config), address, minimal=minimal)
    if description is not None:
        settings = {"description": description, **settings}
    if print_:
        answer({"sites": {address.name: settings}}, "sites:\n" + entry(address.name, settings))
        return
    write_site(path, address.name, settings, replace=replace)
    sentence = f"{path}: added the site '{address.name}'; use it with 'target: {address.name}' in a document"
    answer({"file": path, "site": address.name, "settings": settings}, sentence)


@app.command("list")
def list_sites(json: Json = False) -> None:
    """List the sites that files describe."""
    from modak_deploy.documents.sites import load_site_settings
    from modak_deploy.sites.showing import listing

    typer.echo(listing(load_site_settings(), as_json=json), nl=False)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of the site.", autocompletion=completing(_names))],
    json: Json = False,
) -> None:
    """Print all settings of a site, merged from the files that describe it."""
    from modak_deploy.documents.sites import load_site_settings
    from modak_deploy.sites.showing import shown

    sites = load_site_settings()
    typer.echo(shown(sites.find(name) or sites.get(name, ()), as_json=json), nl=False)


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Also compare these sites with their descriptions.", autocompletion=completing(_names)),
    ] = None,
    config: Config = None,
) -> None:
    """Check all files of sites; with names, also compare those sites with their descriptions."""
    from modak_deploy.sites.showing import check_files, check_targets

    text = check_files()
    answer([], check_targets(names, config) if names else text)  # as JSON, what is wrong, as of an error
