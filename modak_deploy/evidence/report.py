"""Making a report: of the results of jobs, of the measurements in a store, and the small one beside each job."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.errors import InputError
from modak_deploy.evidence import values
from modak_deploy.evidence.jobs import DeployedJob, job_section, job_values, read_job
from modak_deploy.evidence.page import render, render_csv
from modak_deploy.evidence.view import Report, Section, Table, Value
from modak_deploy.outputs import is_stream, write_output
from modak_deploy.performance.recording import PLAN
from modak_deploy.util.files import PRIVATE, is_file, is_folder, listed
from modak_deploy.util.text import plural

if TYPE_CHECKING:
    from modak_deploy.evidence.finished import Finished

JOB_REPORT = "report.html"
"""The report beside the results of a job."""
_DEPTH = 3
_MOST_JOBS = 200
_MOST_BYTES = 8 * 1024 * 1024
NOTES = (
    "A gain is the time of the default over the time of what is compared: above 1 is faster, 2 is half the time.",
    "An interval says where the true value lies; where that of a gain includes 1, the difference may be chance, and "
    "modak runs the default.",
    "A prediction rests, from best to worst, on a measurement, a trial, the model, a time of other hardware that is "
    "carried over by the figures of both, or a ratio from elsewhere.",
    "Regret is how much longer something takes than the fastest that was measured.",
)


def run_folders(top: Path) -> list[Path]:
    """Return the results folders of jobs and benchmarks at or below ``top``; earlier attempts are left out.

    What is in such a folder is what a run has written, and no run of its own, whatever its files are called.
    """
    from modak_deploy.evidence.finished import DESCRIPTION

    if not top.is_dir():
        raise InputError(f"{top}: not found; name the folder that results were fetched to")
    matches: list[Path] = []
    level = [top]
    for _ in range(_DEPTH + 1):
        runs = [folder for folder in level if is_file(folder / PLAN) or is_file(folder / DESCRIPTION)]
        matches += runs
        apart = set(runs)
        level = [entry for folder in level if folder not in apart for entry in _below(folder)]
    return matches


def _below(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # not this user's
        return []
    return [entry for entry in entries if entry.name != "attempts" and is_folder(entry)]


def report_of_jobs(jobs: Sequence[DeployedJob]) -> Report:
    """Return the report on deployed jobs."""
    sections = [job_section(job) for job in jobs]
    if len(jobs) == 1:
        plan = jobs[0].plan
        title = f"{plan.name} on {plan.target.name}"
        summary = sections[0].answer
        sections = [replace(sections[0], title="The decision and its result", answer=values.sentence(plan.reason))]
    else:
        title, summary = f"{len(jobs)} deployed jobs", _overall(jobs)
        sections.insert(0, _overview(jobs, sections))
    return Report(title, summary, sections, [value for job in jobs for value in job_values(job)], NOTES)


def _overall(jobs: Sequence[DeployedJob]) -> str:
    completed = sum(1 for job in jobs if job.result is not None and job.result.state == "completed")
    other = sum(1 for job in jobs if job.plan.chosen.name != job.plan.default)
    return f"{completed} of {len(jobs)} jobs completed; modak chose something other than the default for {other}."


def _overview(jobs: Sequence[DeployedJob], sections: Sequence[Section]) -> Section:
    rows = []
    for job, section in zip(jobs, sections, strict=True):
        figures = {figure.label: figure.value for figure in section.figures}
        rows.append([section.title, job.plan.chosen.name, figures["Gain"], figures["How certain"],
                     figures.get("Predicted", _predicted(job)), figures.get("Took", "-")])  # fmt: skip
    heads = ["Job", "Chosen", "Gain", "How certain", "Predicted", "Took"]
    table = Table("All jobs", "Each has a section of its own below.", heads, rows)
    return Section("Overview", _overall(jobs), (), [table])


def _predicted(job: DeployedJob) -> str:
    return values.seconds(job.plan.prediction.seconds)


def report_of_results(top: Path) -> Report:
    """Return the report on the jobs and benchmarks at or below a folder; InputError where there is none.

    One that cannot be read is an error where it is the only one, and else told beside the others.
    """
    try:
        listed(top)
    except OSError as error:
        raise InputError(f"{top}: cannot be read: {error.strerror}") from None
    folders = run_folders(top)
    if not folders:
        raise InputError(f"{top}: no plan.json or benchmark.json at or below it; name a folder with fetched results")
    benchmarks, jobs, problems = _read(folders[:_MOST_JOBS])
    if not benchmarks and not jobs:
        raise problems[0]
    report = _report_of(benchmarks, jobs)
    untold = [f"Not shown: {str(problem).splitlines()[0]}." for problem in problems]
    if len(folders) > _MOST_JOBS:
        untold.append(f"Not shown: {len(folders) - _MOST_JOBS} of {len(folders)} folders; name one with fewer.")
    return replace(report, summary=" ".join([report.summary, *untold]))


def _read(folders: Sequence[Path]) -> tuple[list["Finished"], list[DeployedJob], list[InputError]]:
    from modak_deploy.evidence.finished import DESCRIPTION, read_finished

    benchmarks, jobs, problems = [], [], []
    for folder in folders:
        try:
            if (folder / DESCRIPTION).is_file():
                benchmarks.append(read_finished(folder))
            else:
                jobs.append(read_job(folder))
        except InputError as error:
            problems.append(error)
    return benchmarks, jobs, problems


def _report_of(benchmarks: Sequence["Finished"], jobs: Sequence[DeployedJob]) -> Report:
    from modak_deploy.evidence.benchmarked import benchmark_section, benchmark_values, method, overview

    if not benchmarks:
        return report_of_jobs(jobs)
    sections = [benchmark_section(finished) for finished in benchmarks]
    numbers = [value for finished in benchmarks for value in benchmark_values(finished)]
    if len(benchmarks) > 1:
        sections.insert(0, overview(benchmarks))
    if jobs:
        of_jobs = report_of_jobs(jobs)
        numbers += of_jobs.values
        sections += [job_section(job) for job in jobs]
    if len(sections) == 1:
        only = replace(sections[0], title="What was measured", answer=method(benchmarks[0]))
        return Report(f"Benchmark: {sections[0].title}", sections[0].answer, [only], numbers, NOTES)
    title = f"{plural(len(benchmarks), 'benchmark')}" + (f" and {plural(len(jobs), 'job')}" if jobs else "")
    return Report(title, "Each has a section of its own below.", sections, numbers, NOTES)


def report_of_measurements(store: str | None, *, workload: str | None = None, shipped: bool = False) -> Report:
    """Return the report on what a store holds; InputError where that is nothing."""
    from modak_deploy.evidence.measured import measured_report

    return measured_report(store, workload=workload, shipped=shipped, notes=NOTES)


def write_report(report: Report, output: Path) -> Path | None:
    """Write the page to ``output`` and its numbers beside it; return the path of the CSV file.

    Where the page goes to a device or a pipe, nothing lies beside it: it is all that is written.
    """
    if is_stream(output):
        write_output(output, render(report))
        return None
    table = output.with_suffix(".csv")
    if table == output:
        raise InputError(f"{output}: the CSV file would replace the page; choose a name that ends in .html")
    for path, text in ((output, render(report)), (table, render_csv(report))):
        write_output(path, text, mode=PRIVATE)
    return table


def write_job_reports(folders: Iterable[Path]) -> list[str]:
    """Write the small report of each job beside its results; return a sentence for each that cannot be written.

    A deployment has done its work by then: whatever goes wrong here, it does not fail for it.
    """
    problems = []
    for folder in folders:
        try:
            _write_job_report(folder)
        except Exception as error:
            reason = str(error).splitlines() or [type(error).__name__]
            problems.append(f"{folder / JOB_REPORT} is not written: {reason[0][:300]}")
    return problems


def _write_job_report(folder: Path) -> None:
    from modak_deploy.jobs.results import declared_outputs
    from modak_deploy.jobs.results.folder import ResultsFolder

    job = read_job(folder)
    declared = {path.partition("/")[0] for path in declared_outputs(job.plan.application)}
    if JOB_REPORT in declared:  # the application's own file of that name
        return
    text = render(report_of_jobs([job])).encode()
    with ResultsFolder(folder) as results:
        if len(text) <= _MOST_BYTES and results.read(JOB_REPORT, _MOST_BYTES) != text:
            results.put(JOB_REPORT, text, PRIVATE)


__all__ = [
    "JOB_REPORT",
    "Report",
    "Value",
    "read_job",
    "report_of_jobs",
    "report_of_measurements",
    "report_of_results",
    "run_folders",
    "write_job_reports",
    "write_report",
]
