"""The command modak. Each command imports what it needs when it runs, so that the short ones are quick."""

import atexit
import functools
import gc
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.models import CommandInfo

from modak_deploy import __version__
from modak_deploy.answers import add_json_option, answering
from modak_deploy.deploy.cli import register
from modak_deploy.diagnostics import as_json
from modak_deploy.errors import ModakError
from modak_deploy.kubernetes import options as kubernetes
from modak_deploy.options import Config, Extra, Results, Search
from modak_deploy.terminal import protected_output
from modak_deploy.util.completion import completing

SECTIONS = {
    "catalogue": "modak_deploy.catalogue.cli:app",
    "measurements": "modak_deploy.performance.cli:measurements",
    "model": "modak_deploy.optimiser.cli:model",
    "benchmark": "modak_deploy.evidence.cli:app",
    "image": "modak_deploy.images.cli:app",
    "blueprint": "modak_deploy.tosca.cli:app",
    "serve": "modak_deploy.serve.cli:app",
    "site": "modak_deploy.sites.cli:app",
    "kubernetes": "modak_deploy.kubernetes.cli:app",
}
"""Commands with commands of their own, by the module and the name of their Typer application."""


def _schemas() -> list[str]:
    from modak_deploy.commands import SCHEMAS

    return list(SCHEMAS)


def _providers() -> list[str]:
    from modak_deploy.onnx.hardware import PROVIDERS

    return ["auto", "measure", *(provider.name for provider in PROVIDERS)]


_file = functools.partial(typer.Argument, readable=False, metavar="FILE")
"""An argument that names a file; whether it can be read, modak tells in its own words."""
Bundle = Annotated[Path, _file(metavar="BUNDLE", help="Folder that 'modak convert' wrote.")]
app = typer.Typer(
    name="modak",
    help="Plan, deploy and tune AI and HPC applications.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Help is as wide as the terminal, but no wider than can be read.
    context_settings={
        "help_option_names": ["--help", "-h"],
        "max_content_width": min(160, shutil.get_terminal_size().columns),
    },
)
register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error goes to stderr and sets the exit code of modak_deploy.errors.

    With ``--json`` its diagnostics go to standard output instead, as a JSON list.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    # Imports make objects that stay: to look through them again and again takes 5 to 10 % of a Plan's processor time.
    gc.set_threshold(200_000)
    # And once more before the interpreter ends, which takes a quarter of it: that memory goes back by itself.
    atexit.register(gc.freeze)
    # What is to be undone at the end, such as a shared connection, is undone where a supervisor ends modak, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with protected_output():
        try:
            with answering():
                command_line(argv)(argv, prog_name="modak")
        except ModakError as error:
            with suppress(SystemExit):  # where nobody reads it; its exit code stays
                if "--json" in argv:
                    print(as_json(error.diagnostics), flush=True)
                else:
                    print(error, file=sys.stderr)
            sys.exit(error.exit_code)


def command_line(argv: Sequence[str] = ()) -> Any:
    """Return the parser of a command line; of all commands where ``argv`` names none."""
    _mount(argv)
    command = typer.main.get_command(_only(argv))
    add_json_option(command)
    return command


def _only(argv: Sequence[str]) -> typer.Typer:
    """Return the application with the command alone that ``argv`` begins with: to make all takes 2 % of a Plan's time.

    With all of them where it begins with none, so that help, completion and errors have every name.
    """
    wanted = [info for info in app.registered_commands if argv and _name_of(info) == argv[0]]
    if not wanted:
        return app
    alone = copy(app)
    alone.registered_commands, alone.registered_groups = wanted, []
    return alone


def _name_of(info: CommandInfo) -> str:
    return info.name or getattr(info.callback, "__name__", "").replace("_", "-")


def _mount(argv: Sequence[str]) -> None:
    """Add the section that is called for; all of them where none is, as for --help."""
    command = next((argument for argument in argv if not argument.startswith("-")), None)
    if command is None and "--version" in argv:
        return
    mounted = {registered.name for registered in app.registered_groups}
    for name, reference in SECTIONS.items():
        module, _, attribute = reference.partition(":")
        if name not in mounted and (command == name or command is None) and find_spec(module) is not None:
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
        _file(help="Deployment documents; sections of a later one replace those of earlier ones. Or a JSON job."),
    ],
    explain: Annotated[bool, typer.Option("--explain", help="Show every candidate and every rejected one.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the whole Plan as JSON; on an error, its diagnostics.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the Plan there; for a JSON job, a folder for its scripts."
        ),
    ] = None,
    extra: Extra = None,
    search: Search = None,
    site: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File or folder that describes the sites which a JSON job names."),
    ] = None,
    config: Config = None,
) -> None:
    """Decide how to run an application on its target, and say why; nothing is submitted."""
    from modak_deploy.commands import write_plan

    write_plan(
        documents, search=search or [], config=config, explain=explain, json=json, output=output, extra=extra or (),
        sites=site or [],
    )  # fmt: skip


@app.command()
def tune(
    documents: Annotated[
        list[Path], _file(help="Deployment documents; sections of a later one replace those of earlier ones.")
    ],
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Most jobs, besides that which confirms the winner.")] = 8,
    batch: Annotated[int, typer.Option(min=1, max=50, help="Candidates in each job.")] = 6,
    budget: Annotated[int, typer.Option(min=10, max=86400, help="Seconds of trials in each job.")] = 120,
    confirm: Annotated[int, typer.Option(min=2, max=20, help="Fresh runs of the winner and the default.")] = 3,
    results: Results = None,
    extra: Extra = None,
    search: Search = None,
    config: Config = None,
) -> None:
    """Search for the fastest levers of an application on its target, by trials in jobs of their own."""
    from modak_deploy.tuning.command import write_tuning
    from modak_deploy.tuning.search import Options

    options = Options(rounds=rounds, batch=batch, budget=budget, confirm=confirm)
    write_tuning(documents, search=search or [], config=config, results=results, options=options, extra=extra or ())


@app.command()
def discover(
    host: Annotated[str | None, typer.Argument(metavar="[USER@]HOST", help="This machine when absent.")] = None,
    name: Annotated[str | None, typer.Option(help="The target's name; the host's when absent.")] = None,
    facts: Annotated[bool, typer.Option("--facts", help="Print all facts as JSON.")] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="FILE", help="Compare the targets of a document or blueprint with what they report."
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Get information about a machine or a cluster; prints the target section of a document."""
    from modak_deploy.commands import compare_targets, write_target

    if check is None:
        write_target(host, name=name, facts=facts, config=config)
    elif host is None and name is None and not facts:
        compare_targets(check, config=config)
    else:
        raise typer.BadParameter(
            "not supported with a host or other options; the document names the targets", param_hint="--check"
        )


@app.command()
def convert(
    document: Annotated[Path, _file(help="The models, their data and how they are combined.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="The bundle; NAME.bundle when absent."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing bundle.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Models that are converted at the same time.")] = 1,
    record: Annotated[bool, typer.Option("--record", help="Add the times to your measurements.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Convert trained models to ONNX, check that they are equal, optimise them, and write a bundle."""
    from modak_deploy.onnx.cli import convert_command

    convert_command(document, output, replace=replace, jobs=jobs, record=record, quiet=quiet)


@app.command()
def infer(
    bundle: Bundle,
    input_: Annotated[
        Path | None,
        typer.Option("--input", "-i", metavar="FILE", help=".npz, .npy, .csv or .parquet; only describe when absent."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help=".npz, .npy, .csv or .parquet; printed as JSON if absent."),
    ] = None,
    provider: Annotated[
        str,
        typer.Option(
            "--provider",
            "-p",
            help="auto, measure, cpu, openvino, cuda, tensorrt, migraphx or rocm.",
            metavar="NAME",
            autocompletion=completing(_providers),
        ),
    ] = "auto",
    batch: Annotated[int | None, typer.Option(min=1, help="Samples per call; all at once when absent.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of one operator; all cores when absent.")] = None,
    cast: Annotated[bool, typer.Option("--cast", help="Convert numbers to the types of the model's inputs.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="OUTPUT", help="Only this output; repeatable.")] = None,
) -> None:
    """Run a bundle of ONNX models on this machine; its files are verified first."""
    from modak_deploy.onnx.infer import infer_command

    infer_command(
        bundle, input_, output, provider=provider, batch=batch, threads=threads, convert=cast, only=only or []
    )


@app.command("serve-model")
def serve_model(
    bundle: Bundle,
    host: Annotated[str, typer.Option(help="Address to listen at; there is no login, so put a proxy before it.")] = (
        "127.0.0.1"
    ),
    http_port: Annotated[int, typer.Option(min=1, max=65535, help="REST.")] = 8080,
    grpc_port: Annotated[int, typer.Option(min=1, max=65535, help="gRPC.")] = 8081,
    metrics_port: Annotated[int, typer.Option(min=1, max=65535, help="Prometheus: /metrics.")] = 8082,
    provider: Annotated[
        str, typer.Option("--provider", "-p", metavar="NAME", help="auto, cpu, openvino, cuda, tensorrt, ...")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of one operator; all cores when absent.")] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="Most samples per call; 1: requests are not combined.")] = 32,
    max_wait: Annotated[float, typer.Option(min=0, metavar="MS", help="Wait for further requests.")] = 0,
    max_request: Annotated[int, typer.Option(min=1, metavar="MIB", help="Largest request.")] = 64,
    receive_seconds: Annotated[float, typer.Option(min=0.1, help="Time for a request to arrive.")] = 30,
    stop_seconds: Annotated[int, typer.Option(min=1, help="Time for requests in flight at the end.")] = 30,
) -> None:
    """Serve a bundle with the Open Inference Protocol v2 (REST and gRPC) until SIGTERM."""
    from modak_deploy.onnx.serve import Serving, serve_command

    serve_command(
        bundle,
        Serving(
            host=host,
            http_port=http_port,
            grpc_port=grpc_port,
            metrics_port=metrics_port,
            provider=provider,
            threads=threads,
            max_batch=max_batch,
            max_wait_ms=max_wait,
            max_request=max_request * 1024**2,
            receive_seconds=receive_seconds,
            stop_seconds=stop_seconds,
        ),
    )


@app.command()
def report(
    folder: Annotated[
        Path | None, _file(metavar="[RESULTS]", help="Results of one job or of several; see --store.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page; a CSV file of the same name is beside it.")
    ] = Path("report.html"),
    store: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Report on the measurements of this store.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", "-w", help="Only measurements of this workload.")
    ] = None,
    shipped: Annotated[bool, typer.Option("--shipped", help="Report on the measurements that modak ships.")] = False,
) -> None:
    """Write a page and a CSV file on decisions, gains and times; without RESULTS, on the measurement store."""
    from modak_deploy.evidence.command import write

    write(folder, output=output, store=store, workload=workload, shipped=shipped)


@app.command()
def manifest(
    plan: kubernetes.PlanFile,
    namespace: kubernetes.Namespace = "default",
    queue: kubernetes.Queue = None,
    node_selector: kubernetes.NodeSelector = None,
    claim: kubernetes.Claim = None,
    work_claim: kubernetes.WorkClaim = None,
    secret: kubernetes.Secret = None,
    pull_secret: kubernetes.PullSecret = None,
    gpu: kubernetes.Gpu = "nvidia",
    keep: Annotated[
        int | None, typer.Option(metavar="SECONDS", min=0, help="Delete the Job so many seconds after its end.")
    ] = None,
    search: kubernetes.Search = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the manifest there.")
    ] = None,
) -> None:
    """Print the Kubernetes Job of a Plan whose program runs in a container image; no cluster is contacted."""
    from modak_deploy.manifest import write_manifest

    values: dict[str, str | int | None] = {"namespace": namespace, "queue": queue, "work_claim": work_claim}
    values |= {"secret": secret, "pull_secret": pull_secret, "gpu": gpu, "keep": keep}
    pairs = kubernetes.pairs(node_selector, claim)
    write_manifest(plan, values, pairs, search=search or [], output=output)


@app.command()
def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="plan, application, target, request, job, ...",
            autocompletion=completing(_schemas),
        ),
    ],
) -> None:
    """Print the JSON schema of a document or of a part of one."""
    from modak_deploy.commands import write_schema

    write_schema(kind)


@app.command()
def man() -> None:
    """Print the manual page; 'man modak' shows it where the wheel is installed."""
    from modak_deploy.answers import answer
    from modak_deploy.deploy.manpage import manual_page

    page = manual_page(command_line())
    answer({"page": page}, page)


if __name__ == "__main__":
    main()
