"""The command ``modak serve``."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_deploy.errors import InputError

if TYPE_CHECKING:
    from modak_deploy.serve.settings import Settings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def serve(
    site: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File or folder that describes sites, as for 'modak plan'."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8123,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that clients must send.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For scripts and entries; serve in the state folder when absent."),
    ] = None,
    public_url: Annotated[str | None, typer.Option(help="Address of the service in links, behind a proxy.")] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address or network of a proxy, whose X-Forwarded-For names the clients; nobody's does when absent.",
        ),
    ] = None,
    lifetime: Annotated[int, typer.Option(min=60, help="Seconds for which links to scripts are valid.")] = 86400,
    max_bytes: Annotated[int, typer.Option(min=1000, help="Largest request.")] = 1024**2,
    rate: Annotated[float, typer.Option(min=0, help="Requests per second from one address; 0 sets no limit.")] = 50.0,
) -> None:
    """Answer documents of the JSON job model over HTTP; it plans jobs and runs none."""
    try:
        import uvicorn

        from modak_deploy.serve.app import make_app
    except ModuleNotFoundError as error:
        raise InputError(f"'modak serve' needs {error.name}: run pip install 'modak-deploy[serve]'") from None
    from modak_deploy.serve.settings import Settings, read_token
    from modak_deploy.state import state_folder

    settings = Settings(
        folder=folder or state_folder() / "serve",
        sites=site or (),
        host=host,
        port=port,
        token=read_token(token_file),
        public_url=public_url,
        proxy=proxy,
        lifetime=lifetime,
        most_bytes=max_bytes,
        rate=rate,
    )
    _listen(uvicorn.run, make_app(settings), settings)


def _listen(run: Callable[..., None], service: Any, settings: "Settings") -> None:
    """Answer until SIGTERM or SIGINT."""
    from modak_deploy.serve.limits import JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # Requests in progress are answered after SIGTERM or SIGINT, new connections are refused; the log is our own.
    run(
        service,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.proxy is not None,  # uvicorn would believe all that this machine's users write there
        forwarded_allow_ips=settings.proxy,
        timeout_graceful_shutdown=settings.grace,
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=200,
    )
