"""Make the tables of evidence anew: evidence_tables.py [--out FOLDER] [--only|--skip|--again PART] [--budget SECONDS].

Each part is a program of this folder. What it prints is kept, and a part that is done is not run again, so that an
interrupted run goes on; programs.py and the study go on within their parts. One that fails or lacks something does not
keep the others from running, and is named. All tables then make evidence.md, evidence.csv and evidence.html.

scaling    laws of scaling on published series that are held out              a minute
model      the time model on workloads left out, rules of thumb, first Plans  five minutes
tuner      the search of modak tune beside Optuna and random search           two minutes
programs   unchanged programs with modak and with what users do in its place  what is left of the hour, or --budget
study      the networks of Jordan et al. natively and in containers           two minutes; eight with --base

The first three only compute, and run side by side. The others measure time: run them on a machine with nothing else to
do.
"""

import argparse
import csv
import html
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TITLES = {
    "scaling": "Laws of scaling on series held out",
    "model": "The time model on workloads left out",
    "tuner": "The search beside Optuna and random search",
    "programs": "Unchanged programs",
    "study": "Native against containers",
}
WHOLE = 3300.0
"""Seconds of all parts, which with the set-up before them make less than an hour."""
STUDY, NATIVE = 480.0, 240.0
"""Seconds that are kept for the study, with containers and without."""
LEAST = 600.0
"""Seconds for the programs, however long the other parts took."""
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:auto;padding:1rem;color-scheme:light dark}
div{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}td,th{border:1px solid #8888;padding:.2rem .5rem;
text-align:left}pre{font-size:.75rem}"""


@dataclass(frozen=True)
class Part:
    """A program and the file with its tables."""

    name: str
    command: Sequence[str]
    table: Path
    """Its standard output, or what it writes itself."""
    measures: bool = False
    """It measures time, and nothing may run beside it."""
    budgeted: bool = False
    """It takes a number of seconds, by --budget."""


def parts(options: argparse.Namespace) -> list[Part]:
    """Return all parts in the order in which they run."""
    out: Path = options.out

    def own(script: str, *arguments: str) -> list[str]:
        return [sys.executable, str(HERE / script), *arguments]

    study = [sys.executable, "-m", "modak_deploy", "benchmark", "study", "--runs", str(options.runs)]
    study += ["--network", "snn", "--epochs", "5", "--images", "301", "--results", str(out / "study")]
    study += ["--base", str(options.base.absolute())] if options.base else ["--kind", "native"]
    programs = ["--pairs", "--out", str(out / "programs.jsonl")]
    return [
        Part("scaling", own("scaling_laws.py"), out / "scaling.txt"),
        Part("model", own("model_evaluation.py"), out / "model.txt"),
        Part("tuner", own("tuner_search.py", "--runs", "8"), out / "tuner.txt"),
        Part("programs", own("programs.py", *programs), out / "programs.md", measures=True, budgeted=True),
        Part("study", study, out / "study.txt", measures=True),
    ]


def run(part: Part, *more: str) -> str:
    """Run a part with more arguments, show what it prints, and keep it; return '' or what went wrong."""
    log = part.table.with_name(f"{part.name}.log")
    began = time.monotonic()
    # From the checkout, whatever folder this is called from.
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    lines = []
    with (
        log.open("w") as kept,
        subprocess.Popen(
            [*part.command, *more],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        for line in process.stdout or ():
            sys.stdout.write(f"{part.name}: {line}")
            sys.stdout.flush()
            kept.write(line)
            lines.append(line)
    if process.returncode:
        return f"failed with {process.returncode} after {time.monotonic() - began:.0f} s, see {log}"
    if part.table.suffix == ".txt":
        part.table.write_text("".join(lines))
    elif not part.table.is_file():
        return f"wrote no {part.table.name}, see {log}"
    print(f"{part.name}: {time.monotonic() - began:.0f} s")
    return ""


def once(part: Part, options: argparse.Namespace, until: float = 0.0) -> str:
    """Run a part that is not done; return '' or what went wrong. All are to be done at ``until``, a monotonic time."""
    done, command = options.out / f"{part.name}.done", shlex.join(part.command)
    kept = done.is_file() and done.read_text() == command and part.name not in options.again
    if not kept:
        done.unlink(missing_ok=True)
    left = until - (STUDY if options.base else NATIVE) - time.monotonic()
    budget = (options.budget or max(LEAST, left)) if part.budgeted else None
    problem = "" if kept else run(part, *(() if budget is None else ("--budget", f"{budget:.0f}")))
    if not problem:
        done.write_text(command)
    print(f"{part.name}: {problem or ('as it was made before' if kept else 'done')}")
    return problem


def cells(line: str) -> list[str] | None:
    """Return the cells of a line of a Markdown table; None for another line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None


def is_rule(row: Sequence[str]) -> bool:
    """Tell whether a row only separates the head of a table from its body."""
    return all(re.fullmatch(r":?-+:?", cell) for cell in row)


def blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield what is a table and what is not, in turn."""
    current: list[str] = []
    table = False
    for line in text.splitlines():
        if line.startswith("|") != table and current:
            yield table, current
            current = []
        table = line.startswith("|")
        current.append(line)
    if current:
        yield table, current


def as_html(text: str) -> Iterator[str]:
    """Yield the lines of a page for a part's text."""
    for table, lines in blocks(text):
        if not table:
            content = "\n".join(lines).strip()
            if content:
                yield f"<div><pre>{html.escape(content)}</pre></div>"
            continue
        yield "<div><table>"
        for number, row in enumerate(row for line in lines if (row := cells(line)) is not None and not is_rule(row)):
            tag = "td" if number else "th"
            yield "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        yield "</table></div>"


def write(out: Path, found: Sequence[tuple[Part, str]]) -> None:
    """Write all tables as one document of each kind."""
    markdown, page, rows = ["# Evidence"], [], []
    for part, problem in found:
        title = TITLES[part.name]
        text = problem or part.table.read_text().strip()
        command = " ".join(Path(word).name if word.startswith("/") else word for word in part.command)
        is_table = any(table for table, _ in blocks(text))
        markdown += ["", f"## {title}", "", f"`{command}`", "", *([text] if is_table else ["```", text, "```"])]
        page += [f"<h2>{html.escape(title)}</h2>", f"<p><code>{html.escape(command)}</code></p>", *as_html(text)]
        for line in text.splitlines():
            row = cells(line) or re.split(r"\s{2,}", line.strip())
            rows += [[part.name, *row]] if any(row) and not is_rule(row) else []
    (out / "evidence.md").write_text("\n".join(markdown) + "\n")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Evidence</title><style>{STYLE}</style>'
    width = '<meta name="viewport" content="width=device-width"><main><h1>Evidence</h1>'
    (out / "evidence.html").write_text("\n".join([head, width, *page, "</main></html>"]) + "\n")
    with (out / "evidence.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = list(TITLES)
    parser.add_argument("--out", type=Path, default=Path(".build/evidence"), help="folder of the tables")
    parser.add_argument("--only", action="append", choices=names, metavar="PART", help="may be repeated")
    parser.add_argument("--skip", action="append", choices=names, default=[], metavar="PART", help="may be repeated")
    parser.add_argument(
        "--again", action="append", choices=names, default=[], metavar="PART", help="though it is there"
    )
    parser.add_argument("--budget", type=float, help="seconds for the programs; by default what is left of an hour")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind in the study")
    parser.add_argument("--base", type=Path, help="base system of the study's containers: a tar file or a folder")
    options = parser.parse_args()
    until = time.monotonic() + WHOLE
    options.out = options.out.absolute()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [part for part in parts(options) if part.name in (options.only or names) and part.name not in options.skip]
    computed, measured = ([part for part in wanted if part.measures is measures] for measures in (False, True))
    with ThreadPoolExecutor(max_workers=2) as pool:
        problems = list(pool.map(lambda part: once(part, options), computed))
    problems += [once(part, options, until) for part in measured]
    found = list(zip([*computed, *measured], problems, strict=True))
    write(options.out, found)
    print(f"written: {options.out / 'evidence.md'}, .csv and .html")
    return 1 if any(problem for _, problem in found) else 0


if __name__ == "__main__":
    sys.exit(main())
