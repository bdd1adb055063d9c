"""Measure unchanged programs as users deploy them, in one interleaved table that starts from empty stores.

    python benchmarks/programs.py                                 # an hour: what is most telling comes first
    python benchmarks/programs.py --minutes 2 --only resnet50-b16 --only mnist-cnn
    python benchmarks/programs.py --pairs                         # short jobs: modak's choice beside all others
    python benchmarks/programs.py --gpu                           # programs on a GPU of this machine
    python benchmarks/programs.py --list

Each program runs, by ``ansible-playbook modak.deploy.deploy``, with the default; with live trials (exact and
relaxed); with live and restart trials; as a second deployment that knows what these have learnt; at last what users
do in place of modak, and its candidates one by one, are measured in short jobs. The default runs once more after a
program's other jobs, and where it then takes another time the table says so: the machine's speed has changed
meanwhile. Deployments with modak have as many units as the default does in ``--live-minutes``, since the time that
trials may lose is a share of it; the default itself has those of ``--minutes``. What jobs of 1, 5 and 20 minutes take
follows from the measured phases (start, trials, steady rate), and is marked by ``~``. Every result is a line of
``--out``; a table that was interrupted goes on when the command is given again. Beside it lie the tables as ``.md``
and ``.csv``.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import program_table
from program_rows import GPU_ROWS, PAIRS, PEERS, ROWS, Row
from program_runs import Workplace, candidates, deploy
from program_search import combinations, far_slower

SHORT_SECONDS = 1.5
"""Seconds of steady work by which a candidate is measured."""
COMPILED_SECONDS = 30.0
"""Seconds that a short job may take which compiles first."""
FEWEST_UNITS = 9
"""Units of a short job at least: two are observed, one is done twice to compare, and a third of them is the figure."""
FINALS = 2
"""Rounds in which the finalists of the search are measured again."""
AGAIN = "again"
"""Name of the default's run after the other ones of its row."""


@dataclass(frozen=True)
class Arm:
    """One way to deploy a program."""

    name: str
    request: dict[str, Any]
    store: str
    record: bool = True


ARMS = (
    Arm("default", {"trials": "none"}, "none", record=False),
    Arm("live-exact", {"numerics": "exact"}, "exact"),
    Arm("live-relaxed", {"numerics": "relaxed"}, "relaxed"),
    Arm("both-relaxed", {"numerics": "relaxed", "trials": {}}, "both"),
    Arm("both-exact", {"numerics": "exact", "trials": {}}, "both-exact"),
    Arm("second-exact", {"numerics": "exact"}, "", record=False),
    Arm("second-relaxed", {"numerics": "relaxed"}, "", record=False),
)
_SWITCHES = frozenset(peer.name for peer in PEERS if not peer.starter)
LEARNT = {
    "second-exact": ("both-exact", "live-exact", "live-relaxed"),
    "second-relaxed": ("both-relaxed", "live-relaxed"),
}
"""First deployments from whose store a second one knows what was learnt: the first of them that was made."""
PAIRS_ARMS = ("default", "live-relaxed", "second-exact", "second-relaxed", "peers", "best")
PAIRS_MINUTES, PAIRS_LIVE_MINUTES = 0.12, 0.6
"""What ``--pairs`` measures of each program, and for how long; all of it takes some three minutes."""


class Results:
    """The lines of the results file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self.entries.append(json.loads(line))
                except ValueError:
                    print(f"{path}: a line cannot be read and is left out", file=sys.stderr)

    def get(self, row: str, arm: str, number: int, name: str = "") -> dict[str, Any] | None:
        """Return the result of a run that was made already."""
        key = (row, arm, number, name)
        return next((one for one in self.entries if key == (one["row"], one["arm"], one["round"], one["name"])), None)

    def add(self, entry: dict[str, Any]) -> None:
        """Keep a result."""
        self.entries.append(entry)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


class Table:
    """All runs of one table, in their order, within the budget."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        options.out.parent.mkdir(parents=True, exist_ok=True)
        self.results = Results(options.out)
        self.place = Workplace(options.out.with_suffix(".work").absolute())
        self._until = time.monotonic() + options.budget
        self.left_out: list[str] = []

    @property
    def _left(self) -> float:
        return self._until - time.monotonic()

    def run(self, rows: Sequence[Row]) -> None:
        """Measure the rows in turns, round after round, until the budget is used up; at last what was fastest again.

        The searches come after all deployments: where time is short, each program has a line, and some have no search.
        """
        for number in range(1, self._options.rounds + 1):
            for row in rows:
                self._row(row, number)
                self._write()
        for row in rows if "best" in self._options.arms else ():
            self._search(row)
            self._write()
        for number in range(2, FINALS + 2) if "best" in self._options.arms else ():
            for row in rows:
                self._finals(row, number)
            self._write()

    def _write(self) -> None:
        program_table.write(self.results.entries, self.left_out, self._options.out)

    def _row(self, row: Row, number: int) -> None:
        short = self._once(row, "calibration", number, row.few, ARMS[0], 10.0, f"{number}")
        if short is None or short["state"] != "completed" or not short["steady"]:
            return
        for arm in ARMS:
            if arm.name in self._options.arms and (known := self._with_store(row, arm, number)) is not None:
                estimate = 60 * self._minutes(arm.name)
                seconds = estimate + (self._options.restart if arm.name.startswith("both") else 0)
                self._once(row, arm.name, number, row.units(estimate, short["steady"]), known, seconds, "")
        if "default" in self._options.arms and not self._options.pairs:  # whose finals have the default as well
            seconds = 60 * self._options.minutes
            self._once(row, "default", number, row.units(seconds, short["steady"]), ARMS[0], seconds, AGAIN)
        if "peers" in self._options.arms and number == 1:
            self._peers(row, _short_units(row, short))

    def _minutes(self, kind: str) -> float:
        """Return how long the default's job of so many units takes."""
        return float(self._options.minutes if kind == ARMS[0].name else self._options.live_minutes)

    def _with_store(self, row: Row, arm: Arm, number: int) -> Arm | None:
        """Return the arm with its store and budget; None for a second deployment without a first one."""
        for name in LEARNT.get(arm.name, ()):
            first = self.results.get(row.name, name, number)
            if first is not None and first["state"] == "completed":
                return replace(arm, store=next(other.store for other in ARMS if other.name == name))
        if "trials" in arm.request and arm.name.startswith("both"):
            return replace(arm, request={**arm.request, "trials": {"budget": self._options.restart}})
        return None if arm.name in LEARNT else arm

    def _once(
        self,
        row: Row,
        kind: str,
        number: int,
        units: int,
        arm: Arm,
        seconds: float,
        name: str,
        starter: Sequence[str] = (),
        short: bool = False,
    ) -> dict[str, Any] | None:
        """Return the result of one run: kept, or made now; None where the budget does not suffice."""
        kept = self.results.get(row.name, kind, number, name)
        if kept is not None and (kept["state"] == "completed" or not self._options.again):
            return kept
        what = f"{row.name} {kind} {name}".strip()
        if self._left < seconds + 5:
            self.left_out.append(f"{what} (round {number})")
            return None
        print(f"[{self._left:5.0f} s left] {what}: {units} units ...", end=" ", file=sys.stderr, flush=True)
        limit = min(self._left, 6 * seconds + 60)
        run = f"{row.name}/{kind}-{number}-{name.replace('+', '_') or 'run'}"[:100]
        store = f"{row.name}-{arm.store}-{number}"
        entry = deploy(self.place, row, units, arm.request, run=run, store=store, record=arm.record, limit=limit,
                       starter=starter, short=short, keeps=arm.store != "none")  # fmt: skip
        entry.update(row=row.name, kind=row.kind, arm=kind, round=number, name=name, minutes=self._minutes(kind))
        self.results.add(entry)
        print(program_table.summary(entry), file=sys.stderr, flush=True)
        return entry

    def _peers(self, row: Row, units: int) -> None:
        """Measure what users do in place of modak, in short jobs."""
        for peer in row.peers:
            asked: dict[str, Any] = {"trials": "none", "numerics": "relaxed"}
            if not peer.starter:
                asked["configuration"] = {"levers": list(peer.levers)}
            arm = Arm("peer", asked, "none", record=False)
            self._once(row, "peer", 1, units, arm, COMPILED_SECONDS, peer.name, peer.starter, short=True)

    # the exhaustive search

    def _search(self, row: Row) -> None:
        """Measure each candidate, then combinations of those that are faster, in short jobs."""
        short = self.results.get(row.name, "calibration", 1, "1")
        if short is None or not short.get("steady"):
            return
        if self._left < 30:
            self.left_out.append(f"{row.name} best")
            return
        units = _short_units(row, short)
        known = candidates(self.place, row, units, "exact" if self._options.exact else "relaxed")
        default = known[0]["levers"]
        singles = [entry["levers"] for entry in known]
        second = [entry for arm in LEARNT if (entry := self.results.get(row.name, arm, 1)) is not None]
        singles += [levers for entry in second if (levers := program_table.ended_with(entry)) not in singles]
        steady: dict[tuple[str, ...], float] = {}
        tried = self._tried(row) if self._options.pairs else {}
        known_by_trial = {
            tuple(levers): tried[added]
            for levers in singles
            if levers not in map(program_table.ended_with, second)
            and (added := frozenset(levers).difference(default)) in far_slower(tried)
        }
        for levers in singles:
            if tuple(levers) not in known_by_trial:
                self._candidate(row, units, levers, steady)
        base = steady.get(tuple(default))
        if base is None:
            return
        steady |= {levers: base / gain for levers, gain in known_by_trial.items()}
        for levers in combinations(singles, default, steady):
            self._candidate(row, units, levers, steady)

    def _finals(self, row: Row, number: int) -> None:
        """Measure the default, the best candidates and what the second deployments ran with once more, in turns.

        The fastest of many single measurements is fast by chance too, and would make all others look bad.
        """
        short = self.results.get(row.name, "calibration", 1, "1")
        if short is None or not short.get("steady"):
            return
        units = _short_units(row, short)
        (line,) = program_table.lines_of([entry for entry in self.results.entries if entry["row"] == row.name])
        for levers in line.finalists():
            self._candidate(row, units, levers, {}, number)

    def _tried(self, row: Row) -> dict[frozenset[str], float]:
        """Return the gains that a first deployment's live trials measured.

        A trial measures the same steady units as a short job, beside the default's.
        """
        trials = [trial for arm in ("live-relaxed", "live-exact") if (first := self.results.get(row.name, arm, 1))
                  for trial in first.get("tried") or []]  # fmt: skip
        return {
            frozenset(trial["levers"]): trial["gain"]
            for trial in reversed(trials)
            if trial["gain"] and not trial["failed"]
        }

    def _candidate(
        self, row: Row, units: int, levers: Sequence[str], steady: dict[tuple[str, ...], float], number: int = 1
    ) -> None:
        name = "+".join(levers) or "as-is"
        peer = next((one for one in self.results.entries if (one["row"], one["arm"]) == (row.name, "peer")
                     and one.get("levers") == list(levers) and one["name"] in _SWITCHES), None)  # fmt: skip
        if peer is not None and number == 1 and self.results.get(row.name, "best", 1, name) is None:
            self.results.add({**peer, "arm": "best", "name": name})  # the same job
        arm = Arm("best", {"trials": "none", "numerics": "relaxed", "configuration": {"levers": list(levers)}}, "none",
                  record=False)  # fmt: skip
        entry = self._once(row, "best", number, units, arm, 4 * SHORT_SECONDS, name, short=True)
        if entry is not None and entry["state"] == "completed" and entry["steady"]:
            steady[tuple(levers)] = entry["steady"]


def _short_units(row: Row, calibration: Mapping[str, Any]) -> int:
    return max(row.units(SHORT_SECONDS, calibration["steady"]), FEWEST_UNITS)


def parsed_options() -> argparse.Namespace:
    """Return the options of the command line, with what ``--pairs`` and ``--gpu`` stand for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in (*ROWS, *GPU_ROWS)]
    arms = [*(arm.name for arm in ARMS), "peers", "best"]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="a program; may be repeated")
    usual = [name for name in arms if name != "both-exact"]
    parser.add_argument("--arms", nargs="+", choices=arms, metavar="ARM",
                        help=f"of {', '.join(arms)}; all but both-exact if not given")  # fmt: skip
    parser.add_argument("--pairs", action="store_true",
                        help="short jobs of 14 programs with all that a comparison needs, 50 minutes; sets "
                             "--only, --arms, --minutes and --live-minutes where they are not given")  # fmt: skip
    parser.add_argument("--gpu", action="store_true", help="the programs for a GPU, where --only names none")
    parser.add_argument("--exact", action="store_true",
                        help="search only among candidates that keep results the same")  # fmt: skip
    parser.add_argument("--minutes", type=float, help="length of the default's job; 0.35 if not given")
    parser.add_argument("--live-minutes", type=float,
                        help="the same, of as many units as the other jobs have; 1 if not given")  # fmt: skip
    parser.add_argument("--restart", type=int, default=60, help="seconds for restart trials")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--budget", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--out", type=Path, default=Path("programs.jsonl"), help="results, one a line")
    parser.add_argument("--again", action="store_true", help="run again what failed before")
    parser.add_argument("--list", action="store_true", help="list the programs")
    options = parser.parse_args()
    pairs = options.pairs
    rows = GPU_ROWS if options.gpu else ROWS
    options.only = options.only or (list(PAIRS) if pairs else [row.name for row in rows])
    options.arms = options.arms or (list(PAIRS_ARMS) if pairs else usual)
    if options.minutes is None:
        options.minutes = PAIRS_MINUTES if pairs else 0.35
    if options.live_minutes is None:
        options.live_minutes = PAIRS_LIVE_MINUTES if pairs else 1.0
    if (
        min(options.minutes, options.live_minutes) <= 0
        or options.rounds < 1
        or options.budget <= 0
        or options.restart < 5
    ):
        parser.error("--minutes, --live-minutes, --rounds and --budget must be above 0, --restart 5 at least")
    if options.out.suffix in (".md", ".csv", ".work"):
        parser.error("--out is the file of results, such as programs.jsonl; the tables lie beside it")
    return options


def main() -> int:
    options = parsed_options()
    if options.list:
        print("\n".join(f"{row.name:22} {row.kind}" for row in (*ROWS, *GPU_ROWS)))
        return 0
    table = Table(options)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs begin with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        table.run([row for row in (*ROWS, *GPU_ROWS) if row.name in options.only])
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        program_table.write(table.results.entries, table.left_out, options.out)
        return 130
    print(options.out.with_suffix(".md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
