"""Write the tables of evidence: the gains into README.md, programs, engines, measurements and the model into pages."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from modak_deploy.catalogue import load_catalogue
from modak_deploy.optimiser.evaluating import evaluate
from modak_deploy.performance.modelling import held_table
from modak_deploy.performance.records import load_measurements

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "benchmarks"))

import cached_jobs  # noqa: E402 - beside the programs that make their results
import chosen_table  # noqa: E402
import engine_table  # noqa: E402
import gains_summary  # noqa: E402
import gpu_tables  # noqa: E402
import papers_table  # noqa: E402
import program_table  # noqa: E402
import restart_table  # noqa: E402
import survey_choice  # noqa: E402
import survey_table  # noqa: E402
from markdown_table import markdown  # noqa: E402
from papers_table import MEASURED  # noqa: E402

PAGES = {
    "gains": TOP / "README.md",
    "gains-short": TOP / "docs" / "gains.md",
    "measurements": TOP / "docs" / "gains-more.md",
    "programs": TOP / "docs" / "gains.md",
    "both": TOP / "docs" / "gains-more.md",
    "both-bf16": TOP / "docs" / "gains-more.md",
    "searched": TOP / "docs" / "gains-more.md",
    "products": TOP / "docs" / "gains-more.md",
    "huge-pages": TOP / "docs" / "gains-more.md",
    "inference": TOP / "docs" / "gains-more.md",
    "inference-amx": TOP / "docs" / "gains-more.md",
    "keras": TOP / "docs" / "gains-more.md",
    "cached": TOP / "docs" / "gains-more.md",
    "expected": TOP / "docs" / "gains.md",
    "expected-traced": TOP / "docs" / "gains.md",
    "expected-weightless": TOP / "docs" / "gains.md",
    "expected-longer": TOP / "docs" / "gains.md",
    "pairs": TOP / "docs" / "gains.md",
    "pairs-amx": TOP / "docs" / "gains-more.md",
    "pairs-avx2": TOP / "docs" / "gains-more.md",
    "survey": TOP / "docs" / "gains.md",
    "survey-choice": TOP / "docs" / "gains.md",
    "evaluation": TOP / "docs" / "evaluation.md",
    "engines": TOP / "docs" / "onnx.md",
    "gpu-levers": TOP / "docs" / "gpu.md",
    "gpu-programs": TOP / "docs" / "gpu.md",
    "papers-modak": TOP / "docs" / "papers.md",
    "papers-hit": TOP / "docs" / "papers.md",
    "papers-study": TOP / "docs" / "papers.md",
    "papers-packings": TOP / "docs" / "papers.md",
}
"""The page that each table stands on."""
PROGRAMS = MEASURED / "programs-intel-xeon-2-cores.jsonl"
"""The machine of the README's table and of the page's whole one."""
BOTH = MEASURED / "both-amd-epyc-avx2-2-cores.jsonl"
"""The machine of the table with restart trials."""
BOTH_BF16 = MEASURED / "both-amd-epyc-2-cores.jsonl"
"""That of all kinds of deployments of the same programs, with bf16."""
SEARCHED = MEASURED / "searched-amd-epyc-2-cores.jsonl"
"""First and second deployments on the same kind of machine, beside the best of a search."""
PRODUCTS = MEASURED / "products-amd-epyc-2-cores.jsonl"
"""The same with matrix products by oneDNN among the levers, exact ones alone."""
HUGE_PAGES = MEASURED / "huge-pages-amd-epyc-2-cores.jsonl"
"""The same with huge pages among the levers, of trainings, with exact levers alone; and with all."""
HUGE_PAGES_RELAXED = MEASURED / "huge-pages-relaxed-amd-epyc-2-cores.jsonl"
INFERENCE = MEASURED / "inference-amd-epyc-2-cores.jsonl"
"""The machine of the table with ONNX Runtime among the levers."""
INFERENCE_AMX = MEASURED / "inference-intel-xeon-2-cores.jsonl"
"""That of the same table with AMX."""
KERAS = MEASURED / "keras-amd-epyc-avx2-2-cores.jsonl"
"""Keras's programs, with levers that were not tried live in the other tables."""
CACHED = MEASURED / "cached-amd-epyc-avx2-2-cores.jsonl"
"""Second deployments with the cache of the first one and without it."""
EXPECTED = MEASURED / "expected-amd-epyc-avx2-2-cores.jsonl"
"""Second deployments that go by what others gained."""
TRACED = MEASURED / "traced-amd-epyc-avx2-2-cores.jsonl"
"""The same of four programs, once they are traced for ONNX Runtime."""
WEIGHTLESS = MEASURED / "expected-amd-epyc-2-cores.jsonl"
"""The same of all of them on another machine, once they are converted without their weights."""
LONGER = MEASURED / "expected-5-minutes-amd-epyc-avx2-2-cores.jsonl"
"""The same in jobs of five minutes."""
PAIRS = MEASURED / "pairs-amd-epyc-2-cores.jsonl"
"""What make evidence measured of the programs on a machine."""
PAIRS_AMX = MEASURED / "pairs-intel-xeon-2-cores.jsonl"
"""The same of some programs on one with AMX."""
PAIRS_AVX2 = MEASURED / "pairs-amd-epyc-avx2-2-cores.jsonl"
"""The same of all of them on one without arithmetic in bf16, and without the search for the best."""
SURVEY = MEASURED / "survey-amd-epyc-avx2-2-cores.jsonl"
"""All sets of live levers, measured in turns, and what deployments of a minute ended with."""
GPU_LEVERS, GPU_PROGRAMS = MEASURED / "levers-h100.jsonl", MEASURED / "programs-h100.jsonl"
ENGINES = MEASURED / "engines-amd-epyc-2-cores.json"
DEFAULT = ("keras-tensorflow",)
TOLERANCE = 2
"""Percentage points by which another machine's libraries may round the evaluation otherwise."""


def measurements() -> str:
    totals = papers_table.digits()
    rows = [
        (" + ".join(levers), f"{total:.1f}", f"{totals[DEFAULT] / total:.2f}")
        for levers, total in sorted(totals.items(), key=lambda pair: pair[1])
    ]
    return markdown([("levers", "seconds", "times as fast as the default"), *rows])


def evaluation() -> str:
    return markdown(held_table(evaluate(load_measurements(), load_catalogue())))


def lines(path: Path) -> list[program_table.Line]:
    """Return what was measured of the unchanged programs."""
    return program_table.lines_of([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])


def gains() -> str:
    return program_table.short(lines(PROGRAMS), minutes=5)


def programs() -> str:
    return program_table.sections(lines(PROGRAMS))


def both() -> str:
    return restart_table.restarts(lines(BOTH))


def both_bf16() -> str:
    return program_table.sections(lines(BOTH_BF16), "###")


def searched() -> str:
    return "\n".join((program_table.short(lines(SEARCHED), minutes=5), program_table.choices(lines(SEARCHED))))


def products() -> str:
    return program_table.short(lines(PRODUCTS), minutes=5)


def huge_pages() -> str:
    return "\n".join(program_table.short(lines(file), minutes=5) for file in (HUGE_PAGES, HUGE_PAGES_RELAXED))


def inference() -> str:
    return program_table.short(lines(INFERENCE), minutes=5)


def inference_amx() -> str:
    return program_table.short(lines(INFERENCE_AMX), minutes=5)


def keras() -> str:
    return program_table.short(lines(KERAS), minutes=5)


def cached() -> str:
    return cached_jobs.table([json.loads(line) for line in CACHED.read_text(encoding="utf-8").splitlines()])


def expected() -> str:
    return chosen_table.table(survey_table.read(EXPECTED))


def expected_traced() -> str:
    return chosen_table.table(survey_table.read(TRACED))


def expected_weightless() -> str:
    return chosen_table.jobs(survey_table.read(WEIGHTLESS))


def expected_longer() -> str:
    return chosen_table.table(survey_table.read(LONGER))


def pairs() -> str:
    return program_table.choices(lines(PAIRS))


def pairs_amx() -> str:
    return program_table.choices(lines(PAIRS_AMX))


def pairs_avx2() -> str:
    chosen = chosen_table.choices(survey_table.read(PAIRS_AVX2))
    return "\n".join(
        (program_table.short(lines(PAIRS_AVX2), minutes=5), program_table.choices(lines(PAIRS_AVX2)), chosen)
    )


def survey() -> str:
    return survey_table.table(survey_table.read(SURVEY))


def after_survey() -> str:
    return survey_choice.table(survey_choice.RECORDS)


def gpu_levers() -> str:
    return gpu_tables.levers([json.loads(line) for line in GPU_LEVERS.read_text(encoding="utf-8").splitlines()])


def gpu_programs() -> str:
    return gpu_tables.programs(lines(GPU_PROGRAMS))


def engines() -> str:
    return engine_table.table(json.loads(ENGINES.read_text())["cells"])


def alike(one: str, other: str) -> bool:
    """Tell whether two texts differ at most in percentages, and in these by TOLERANCE or a 20th at most."""
    share = re.compile(r"(\d+)%")
    pairs = zip(share.findall(one), share.findall(other), strict=False)
    return share.sub("%", one) == share.sub("%", other) and all(
        abs(int(a) - int(b)) <= max(TOLERANCE, int(a) / 20) for a, b in pairs
    )


def between(text: str, name: str) -> tuple[str, str, str]:
    """Return what stands before, between and after the marks of ``name``."""
    head, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
    old, end, tail = rest.partition(f"<!-- {name}: end -->")
    return head + begin, old, end + tail


TABLES: dict[str, Callable[[], str]] = {
    "gains": gains,
    "gains-short": gains_summary.table,
    "measurements": measurements,
    "programs": programs,
    "both": both,
    "both-bf16": both_bf16,
    "searched": searched,
    "products": products,
    "huge-pages": huge_pages,
    "inference": inference,
    "inference-amx": inference_amx,
    "keras": keras,
    "cached": cached,
    "expected": expected,
    "expected-traced": expected_traced,
    "expected-weightless": expected_weightless,
    "expected-longer": expected_longer,
    "pairs": pairs,
    "pairs-amx": pairs_amx,
    "pairs-avx2": pairs_avx2,
    "survey": survey,
    "survey-choice": after_survey,
    "evaluation": evaluation,
    "engines": engines,
    "gpu-levers": gpu_levers,
    "gpu-programs": gpu_programs,
    "papers-modak": papers_table.compilers,
    "papers-hit": papers_table.conversions,
    "papers-study": papers_table.containers,
    "papers-packings": papers_table.packings,
}
"""What makes each table."""


def outdated(names: Iterable[str], check: bool) -> list[str]:
    """Return the pages of those tables that are not as measured, which are written there unless it is a ``check``."""
    pages = []
    for name in names:
        page, table = PAGES[name], TABLES[name]()
        head, old, tail = between(page.read_text(), name)
        if alike(old, table):
            continue
        pages.append(page.name)
        if not check:
            page.write_text(f"{head}{table}{tail}")
    return pages


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true",
                        help="write nothing; end with 1 where a table is not as measured")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help="leave out the evaluation, which fits a model for each workload: minutes")  # fmt: skip
    parser.add_argument("--print", action="store_true", help="show the evaluation, and do nothing else")
    options = parser.parse_args(arguments)
    if options.print:
        print(evaluation(), end="")
        return 0
    pages = outdated([name for name in TABLES if not (options.quick and name == "evaluation")], options.check)
    if pages and options.check:
        print(f"{', '.join(pages)}: not as measured: run python scripts/evidence.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
