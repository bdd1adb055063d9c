"""Write the table of the digits measurements into README.md; --check tells whether it is current."""

import statistics
import sys
from pathlib import Path

from modak.catalogue.catalogue import DATA
from modak.model.measurement import Measurement, Run
from modak.performance.records import read_records

README = Path(__file__).resolve().parent.parent / "README.md"
DIGITS = DATA / "measurements" / "digits-amd-epyc-2-cores.jsonl"
BEGIN, END = "<!-- measurements: begin -->\n", "<!-- measurements: end -->"
EPOCHS = 12
DEFAULT = ("keras-tensorflow",)


def seconds(run: Run) -> float:
    """Return the seconds of EPOCHS epochs: start, first epoch, and the others at the later ones' median."""
    return (run.start or 0.0) + (run.first or 0.0) + (EPOCHS - 1) * statistics.median(run.later)


def table() -> str:
    records = [record for record in read_records(DIGITS) if isinstance(record, Measurement)]
    totals = {tuple(r.configuration.levers): statistics.median(map(seconds, r.runs)) for r in records}
    rows = [
        f"| {' + '.join(levers)} | {total:.1f} | {totals[DEFAULT] / total:.2f} |"
        for levers, total in sorted(totals.items(), key=lambda pair: pair[1])
    ]
    return "\n".join(["| levers | seconds | times as fast as the default |", "|---|---|---|", *rows]) + "\n"


def main() -> int:
    text = README.read_text()
    head, rest = text.split(BEGIN)
    _old, tail = rest.split(END)
    current = f"{head}{BEGIN}{table()}{END}{tail}"
    if "--check" not in sys.argv[1:]:
        README.write_text(current)
    elif current != text:
        print("README.md differs from the measurements: run python scripts/evidence.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
