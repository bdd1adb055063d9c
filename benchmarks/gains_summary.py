"""One table of what all measurements of whole jobs came to: geometric means by machine, kind of work and length."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import chosen_table
import program_table
import survey_table
from markdown_table import markdown

MEASURED = Path(__file__).resolve().parent / "measured"
HEAD = ("two cores of", "jobs of", "programs", "first, exact", "second, exact", "first, relaxed", "second, relaxed")
ARMS = ("live-exact", "second-exact", "live-relaxed", "second-relaxed")


@dataclass(frozen=True)
class Source:
    """Results of whole jobs."""

    file: str
    processor: str
    minutes: int
    section: str
    """Link to what tells of them."""
    whole: bool = False
    """Whether the jobs had this length; otherwise what they take in it follows from their phases."""


SOURCES = (
    Source("programs-intel-xeon-2-cores", "Intel Xeon, AMX", 5, "#jobs-of-5-min"),
    Source("inference-intel-xeon-2-cores", "Intel Xeon, AMX", 5,
           "gains-more.md#with-onnx-runtime-on-a-processor-with-amx"),
    Source("inference-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "gains-more.md#with-onnx-runtime-among-the-levers"),
    Source("pairs-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "#beside-what-users-do"),
    Source("both-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "gains-more.md#all-kinds-of-deployments-with-bf16"),
    Source("searched-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "gains-more.md#beside-the-best-of-a-search-with-bf16"),
    Source("huge-pages-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "gains-more.md#with-huge-pages"),
    Source("huge-pages-relaxed-amd-epyc-2-cores", "AMD EPYC, bf16", 5, "gains-more.md#with-huge-pages"),
    Source("pairs-amd-epyc-avx2-2-cores", "AMD EPYC, AVX2", 5, "gains-more.md#all-programs-on-a-processor-with-avx2"),
    Source("expected-amd-epyc-avx2-2-cores", "AMD EPYC, AVX2", 1, "#by-what-others-gained", whole=True),
    Source("expected-amd-epyc-2-cores", "AMD EPYC, bf16", 1, "#converted-without-weights", whole=True),
    Source("expected-5-minutes-amd-epyc-avx2-2-cores", "AMD EPYC, AVX2", 5, "#the-same-in-jobs-of-five-minutes",
           whole=True),
    Source("expected-5-minutes-amd-epyc-avx2-2-cores", "AMD EPYC, AVX2", 20, "#the-same-in-jobs-of-five-minutes"),
)  # fmt: skip


def _factors(source: Source) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return how many times as fast as the default jobs were, by kind of work and arm.

    Means stand beside each other, so that all are those of the same programs: of the ones that have them all.
    """
    entries = survey_table.read(MEASURED / f"{source.file}.jsonl")
    if source.whole:
        gains = [
            (jobs.kind, {arm: jobs.by_default / seconds for arm, seconds in jobs.seconds.items()})
            for jobs in chosen_table.jobs_of(entries)
        ]
    else:
        gains = [(line.kind, _gains(line, source.minutes)) for line in program_table.lines_of(entries)]
    factors: dict[str, dict[str, list[float]]] = {}
    for kind in dict.fromkeys(kind for kind, own in gains if own):
        arms = {arm for other, own in gains for arm in own if other == kind}
        complete = [own for other, own in gains if other == kind and own.keys() == arms]
        factors[kind] = {arm: [own[arm] for own in complete] for arm in ARMS if arm in arms}
    return factors


def _gains(line: program_table.Line, minutes: int) -> dict[str, float]:
    gains = {arm: line.gain(arm, minutes) for arm in ARMS}
    return {arm: gain[0] for arm, gain in gains.items() if gain is not None}


def table() -> str:
    """Return a line for each kind of work in each of the measurements."""
    rows: list[Sequence[str]] = [HEAD]
    for source in SOURCES:
        for kind, arms in _factors(source).items():
            most = max(map(len, arms.values()))
            means = (f"{statistics.geometric_mean(arms[arm]):.2f}" if arms.get(arm) else "-" for arm in ARMS)
            programs = f"{most} others" if kind == "other" else f"{most} of {kind}"
            rows.append((source.processor, f"[{source.minutes} min]({source.section})", programs, *means))
    return markdown(rows)
