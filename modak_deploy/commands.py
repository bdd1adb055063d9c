"""What the commands do, apart from how they are called."""

import json as json_text
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_deploy.answers import answer
from modak_deploy.diagnostics import Diagnostic, Locate
from modak_deploy.errors import InfeasibleError, InputError, TargetError
from modak_deploy.numbers import digits
from modak_deploy.outputs import check_output, write_output
from modak_deploy.util.files import PRIVATE

if TYPE_CHECKING:
    from modak_deploy.model.deployment import Deployment
    from modak_deploy.model.plan import Plan
    from modak_deploy.model.target import Facts, Target

SCHEMAS = {
    "application": "modak_deploy.model.application:Application",
    "bundle": "modak_deploy.onnx.manifest:Manifest",
    "conversion": "modak_deploy.onnx.request:ConversionRequest",
    "deployment": "modak_deploy.model.deployment:Deployment",
    "facts": "modak_deploy.model.target:Facts",
    "image": "modak_deploy.model.image:ImageEntry",
    "job": "modak_deploy.model.request:JobOptions",
    "job-model": "modak_deploy.jobmodel.model:JobDocument",
    "measurement": "modak_deploy.model.measurement:Measurement",
    "plan": "modak_deploy.model.plan:Plan",
    "request": "modak_deploy.model.request:Request",
    "result": "modak_deploy.model.job:JobResult",
    "site": "modak_deploy.model.site:SiteFile",
    "target": "modak_deploy.model.target:Target",
}
"""What ``modak schema`` can print, by the model's place."""
_LAST_SECOND = 253_402_300_799
"""Of the year 9999, after which there are no dates."""


def write_plan(
    documents: Sequence[Path],
    *,
    search: Sequence[Path],
    config: Path | None,
    explain: bool,
    json: bool,
    output: Path | None,
    extra: Sequence[str] = (),
    sites: Sequence[Path] = (),
) -> None:
    """Plan the deployment that ``documents`` and ``extra`` describe; print it, and write it to ``output``.

    A single document of the JSON job model is completed instead, with what ``sites`` say of its target.
    """
    from modak_deploy.documents import files_read, folders, parse_options, read_description, read_document
    from modak_deploy.documents.extra import read_extra, with_values
    from modak_deploy.jobmodel.recognise import is_job_document

    values = read_extra(extra)
    if len(documents) == 1 and is_job_document((document := read_document(documents[0])).data):
        from modak_deploy.jobmodel.command import write_answer

        if extra:
            problem = "not supported with a document of the JSON job model"
            raise InputError(problem, source="-e", hint="write the value into the document")
        paths = folders(search, documents)
        write_answer(document, sites=sites, search=paths, now=now(), explain=explain, json=json, output=output)
        return
    if output is not None:
        check_output(output, documents)
    if sites:
        raise InputError("--site describes targets of the JSON job model, and this is not such a document")
    description = with_values(read_description(*documents), values)
    deployment, documented = description.parse()
    options = parse_options(values.options, documented)
    paths = folders([*search, *map(Path, options.search_paths)], documents)
    plan = _planned(deployment, description.locate, paths, config)
    if output is not None:
        read = files_read(deployment.application, paths)
        write_output(output, plan.to_json(), inputs=read, mode=PRIVATE)  # a Plan holds the application's environment
    if json:
        sys.stdout.write(plan.to_json())
    else:
        from modak_deploy.optimiser.table import render

        sys.stdout.write(render(plan, explain=explain))


def _planned(deployment: "Deployment", locate: Locate, search: Sequence[Path], config: Path | None) -> "Plan":
    """Return the Plan of a deployment, for which its targets are asked; ``locate`` says where it is described."""
    from modak_deploy.transport.connect import connect

    try:
        with ExitStack() as stack:
            inquiries = _inquiries(deployment, config, stack)
            # Imported while the targets answer: 45 of the 80 ms that this machine takes, and more over ssh.
            from modak_deploy.planning import plan_deployment

            return plan_deployment(
                deployment,
                lambda target: connect(target, config, stack),
                search=search,
                now=now(),
                default_python=sys.executable,
                inquiries=inquiries,
                notice=lambda text: print(text, file=sys.stderr),
            )
    except (InputError, InfeasibleError, TargetError) as error:
        raise error.located(locate) from None


def _inquiries(deployment: "Deployment", config: Path | None, stack: ExitStack) -> dict[str, Callable[[], str]]:
    """Ask all targets of a deployment about themselves at once; ``stack`` closes the connections."""
    from modak_deploy.discovery.asking import Inquiry, script_for
    from modak_deploy.transport.connect import connect

    return {
        target.name: Inquiry(
            connect(target, config, stack), script_for(deployment.on(target), sys.executable), target.name
        ).answer
        for target in deployment.targets
        if target.is_asked
    }


def now() -> datetime:
    """Return the time; SOURCE_DATE_EPOCH stands over the clock, as it does for builds that are to be repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC)
    if (seconds := digits(epoch, _LAST_SECOND)) is None:
        raise InputError(f"SOURCE_DATE_EPOCH is '{epoch[:40]}'", hint="it must be seconds since 1970")
    return datetime.fromtimestamp(seconds, UTC)


def write_target(host: str | None, *, name: str | None, facts: bool, config: Path | None) -> None:
    """Ask ``[user@]host[:port]``, or this machine, about itself; print the target, or all ``facts``."""
    from modak_deploy.discovery import describe, target_of
    from modak_deploy.documents import check
    from modak_deploy.model.target import Target
    from modak_deploy.transport.ssh_config import split

    address: dict[str, Any] = {}
    if host is not None:
        hostname, user, port = split(host)
        address = {"host": hostname, "user": user, "port": int(port) if port and port.isdecimal() else port}
    given = check(Target, {"name": name or "discovered", **address}, origin="modak discover")
    reported = _facts(given, None, config)
    if facts:
        answer(reported, reported.model_dump_json(indent=2))
    else:
        target = target_of(reported, given, name)
        answer(target.model_dump(mode="json", exclude_defaults=True), describe(target))


def _facts(address: "Target", described: "Target | None", config: Path | None) -> "Facts":
    """Return what the target at ``address`` tells; which scheduler it has is found out unless it is ``told``."""
    from modak_deploy.discovery import parse_probe, probe_script
    from modak_deploy.discovery.asking import ask
    from modak_deploy.transport.connect import connect

    with ExitStack() as stack:
        transport = connect(address, config, stack)
        return parse_probe(ask(transport, probe_script(described), address.host or "this machine"), described)


def compare_targets(document: Path, *, config: Path | None) -> None:
    """Ask the targets that ``document`` describes about themselves; TargetError lists what is found to be otherwise."""
    from modak_deploy.discovery import differences
    from modak_deploy.inventory import load_targets
    from modak_deploy.transport.connect import check_reachable

    targets = load_targets(document)
    for target in targets:
        check_reachable(target, "'modak discover --check'", source=document)
    diagnostics: list[Diagnostic] = []
    for target in targets:
        reported = _facts(target, target, config)
        diagnostics += [
            Diagnostic(f"{target.name}: {difference}", "target-differs", source=str(document))
            for difference in differences(target, reported)
        ]
    if diagnostics:
        raise TargetError(diagnostics)
    answer([], "".join(f"{target.name}: as described\n" for target in targets))


def write_schema(kind: str) -> None:
    """Print the JSON schema of one of ``SCHEMAS``."""
    if kind not in SCHEMAS:
        from modak_deploy.util.text import nearest

        choices = f"; there are {', '.join(SCHEMAS)}"
        raise InputError(f"schema '{kind}' not found{nearest(kind, list(SCHEMAS)) or choices}")
    module, _, name = SCHEMAS[kind].partition(":")
    model = getattr(import_module(module), name)
    value = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    answer(value, json_text.dumps(value, indent=2))
