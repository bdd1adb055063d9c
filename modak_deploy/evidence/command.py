"""What ``modak report`` and ``modak benchmark`` do."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.answers import answer
from modak_deploy.documents import check, folders
from modak_deploy.errors import InfeasibleError, InputError, TargetError
from modak_deploy.evidence.protocol import Protocol
from modak_deploy.evidence.report import report_of_measurements, report_of_results, write_report
from modak_deploy.jobs.shown import JobLines, to_stderr
from modak_deploy.model.base import parse_duration
from modak_deploy.paths import expanded
from modak_deploy.performance.paths import store_in_use
from modak_deploy.util.text import plural

if TYPE_CHECKING:
    from modak_deploy.evidence.configurations import Wanted
    from modak_deploy.evidence.finished import Finished
    from modak_deploy.evidence.study import Study


def write(folder: Path | None, *, output: Path, store: str | None, workload: str | None, shipped: bool) -> None:
    """Write the report on a results folder, on a store or on what modak ships, and say where it is."""
    if folder is not None and (store is not None or workload is not None or shipped):
        raise InputError("RESULTS cannot be combined with --store, --workload or --shipped")
    if shipped and store is not None:
        raise InputError("--shipped cannot be combined with --store")
    if folder:
        report = report_of_results(folder)
    else:
        report = report_of_measurements(store or store_in_use(), workload=workload, shipped=shipped)
    table = write_report(report, output)
    value = {"title": report.title, "summary": report.summary, "page": output, "table": table}
    # What follows the page on standard output would be a part of it.
    answer(value, f"{report.title}: {report.summary}\nwritten: {output} and {table}" if table is not None else "")


def benchmark(
    documents: Sequence[Path],
    wanted: "Wanted",
    options: Mapping[str, object],
    *,
    results: Path | None,
    record: bool,
    config: Path | None,
    extra: Sequence[str] = (),
) -> None:
    """Carry out a benchmark of what ``documents`` and ``extra`` describe, and record it where that is wanted.

    Its table is printed, and its report written.
    """
    from modak_deploy.documents.extra import read_described
    from modak_deploy.evidence.benchmark import carry_out, prepare
    from modak_deploy.evidence.benchmarked import table_lines
    from modak_deploy.transport.connect import connect

    description, deployment, documented = read_described(documents, extra)
    if deployment.other_targets:
        raise InputError("a benchmark has one target", source=documents[0], key="other_targets")
    if record and deployment.application.workload.model is None:
        raise InputError(
            "the key 'model' is required; measurements are found by it", source=documents[0], key="application.workload"
        )
    protocol = protocol_of(options)
    folder = results or expanded(documented.results)
    search = folders([*map(Path, documented.search_paths)], documents)
    with ExitStack() as stack:
        transport = connect(deployment.target, config, stack)
        try:
            prepared = prepare(
                deployment, transport, wanted=wanted, protocol=protocol, search=search, default_python=sys.executable
            )
        except (InputError, InfeasibleError, TargetError) as error:
            raise error.located(description.locate) from None
        names = ", ".join(plan.chosen.name for plan in prepared.configurations)
        sys.stdout.write(f"{plural(len(prepared.configurations), 'configuration')}: {names}\n")
        finished, _ = carry_out(prepared, transport, folder.absolute(), reporter=JobLines(to_stderr))
    lines = list(table_lines(finished))
    page = finished.folder / "report.html"
    write_report(report_of_results(finished.folder), page)
    lines.append(f"written: {page}")
    if record:
        lines.append(recorded(finished, to_stderr))
    answer({"benchmark": finished, "page": page}, "\n".join(lines))


def carry_out_study(study: "Study", results: Path, work: Path) -> None:
    """Carry out the study of native runs against containers, print its tables, and write its report."""
    from modak_deploy.evidence.benchmarked import table_lines
    from modak_deploy.evidence.study import carry_out

    studies = []
    for finished in carry_out(study, results, work, to_stderr):
        sys.stdout.write("\n" + "\n".join(table_lines(finished)) + "\n")
        studies.append(finished)
    page = results / "report.html"
    write_report(report_of_results(results), page)
    answer({"benchmarks": studies, "page": page}, f"written: {page}")


def recorded(finished: "Finished", notice: Callable[[str], None]) -> str:
    """Add what was measured to the store, and let the time model keep up with it; return a sentence on the store."""
    from modak_deploy.catalogue.catalogue import load_catalogue
    from modak_deploy.evidence.benchmark import measurements_of
    from modak_deploy.performance.refitting import keep_current
    from modak_deploy.performance.store import Store

    opened = Store(store_in_use())
    try:
        new, repeated = opened.add(measurements_of(finished, load_catalogue()))
        name = opened.name
    finally:
        opened.close()
    if new:
        keep_current(notice)
    return f"{new} new measurements, {repeated} known already, in {name}"


def protocol_of(options: Mapping[str, object]) -> Protocol:
    """Return the protocol that options of the command line or of a task ask for; InputError for a wrong one."""
    given = {key: value for key, value in options.items() if value is not None and key != "limit"}
    if options.get("limit") is not None:
        try:
            given["seconds"] = parse_duration(options["limit"])
        except ValueError as error:
            raise InputError(f"limit: {error}") from None
    protocol = check(Protocol, given, origin="the options")
    if protocol.most < protocol.least:
        raise InputError(f"most: {protocol.most} rounds are fewer than the least, {protocol.least}")
    return protocol
