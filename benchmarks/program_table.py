"""From the results of single runs to the table: totals of jobs of several lengths, gains, regret, means."""

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import markdown_table
import yaml

DEFAULTS = ("as-is", "keras-tensorflow")
"""Names of the default among the candidates."""
LENGTHS = (1, 5, 20)
"""Minutes of the default's job."""
ARMS = ("live-exact", "live-relaxed", "both-exact", "both-relaxed", "second-exact", "second-relaxed")
LEVERS = Path(__file__).resolve().parent.parent / "modak_deploy" / "catalogue" / "data" / "levers.yaml"
_CATALOGUE = yaml.safe_load(LEVERS.read_text(encoding="utf-8"))["levers"]
RELAXED = frozenset(lever["name"] for lever in _CATALOGUE if lever.get("numerics") == "relaxed")
"""Levers that relaxed numerics alone permit."""
LIVE = frozenset(lever["name"] for lever in _CATALOGUE if lever.get("launch") == "live")
"""Levers that trials in a job can take away again."""
AGREE = {"exact": 0.01, "relaxed": 0.2}
"""Largest relative difference of a program's result from the default's."""
DISTURBED = 1.1
"""Times the fastest of the default's runs, from which the slowest one shows that the machine's speed has changed."""

Entry = dict[str, Any]


def summary(entry: Entry) -> str:
    """Return how a run went, in a line."""
    if entry["state"] != "completed":
        return f"{entry['state']}: {entry.get('reason', '')}"
    levers = "+".join(entry["levers"]) or "as-is"
    ended = [f"{settled['of']}: {'+'.join(settled['levers']) or 'default'}" for settled in entry.get("settled") or []]
    text = f"{entry['total'] or 0:.1f} s, steady {1000 * (entry['steady'] or 0):.3g} ms, {levers}"
    return text + (f" -> {'; '.join(ended)}" if ended else "")


PIPELINES, PLAIN_INPUT = "the pipelines of Keras", "keras-plain-input"
"""What Keras's levers are settled for beside its functions, and the lever of it."""


def ended_with(entry: Entry) -> list[str]:
    """Return the levers with which a job went on to its end: those of the Plan, and what trials in it have found."""
    levers = list((entry.get("restart") or {}).get("levers") or entry.get("levers") or [])
    last = {one.get("of"): one["levers"] for one in entry.get("settled") or [{"levers": levers}]}
    settled = [lever for those in last.values() for lever in those]
    if PIPELINES not in last:  # which are settled where they are tried alone
        settled += [lever for lever in levers if lever == PLAIN_INPUT]
    return [lever for lever in levers if lever in settled or lever not in LIVE] + [
        lever for lever in settled if lever not in levers
    ]


def is_exact(levers: Iterable[str]) -> bool:
    """Tell whether no lever changes results beyond the order of additions."""
    return RELAXED.isdisjoint(levers)


def total(entry: Entry, units: float, between: float = 0.0) -> float:
    """Return the seconds of a job of so many units: as measured, and the rest at the steady rate.

    ``between`` are the seconds that lie between two units, such as those of an epoch's end.
    """
    return max(0.0, float(entry["total"]) + (units - entry["units"]) * (float(entry["steady"]) + between))


class Line:
    """What is known about one program."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self.name = name
        self.kind = entries[0]["kind"]
        self._entries = list(entries)
        self._done = [entry for entry in self._entries if entry["state"] == "completed" and entry.get("steady")]

    def of(self, arm: str) -> list[Entry]:
        """Return the completed runs of an arm."""
        return [entry for entry in self._done if entry["arm"] == arm]

    @property
    def failures(self) -> list[str]:
        """Return what ended badly; combinations of levers that cannot be on together are refused."""
        return [
            f"{self.name} {entry['arm']} {entry['name']}: {entry['state']}: {entry.get('reason', '')}"
            for entry in self._entries
            if entry["state"] != "completed"
        ]

    def units(self, minutes: float) -> float | None:
        """Return the units that the default does in so many minutes."""
        runs = self.of("default")
        if not runs:
            return None
        unit = statistics.median(run["steady"] for run in runs) + self.between
        starts = [max(0.0, run["total"] - run["units"] * unit) for run in runs]
        return max(1.0, (60 * minutes - statistics.median(starts)) / unit)

    @property
    def between(self) -> float:
        """Return the seconds between two units of the default: a steady unit says nothing of them."""
        runs = [run for run in self.of("default") if run.get("start") is not None]
        if not runs:
            return 0.0
        return max(0.0, statistics.median((run["total"] - run["start"]) / run["units"] - run["steady"] for run in runs))

    def gain(self, arm: str, minutes: float) -> tuple[float, bool] | None:
        """Return how many times as fast a job of so many minutes is, and whether that is extrapolated."""
        units = self.units(minutes)
        runs, default = self.of(arm), self.of("default")
        if units is None or not runs:
            return None
        before = statistics.median(total(run, units, self.between) for run in default)
        after = statistics.median(total(run, units, self.between) for run in runs)
        measured = all(abs(run["units"] / units - 1) < 0.25 for run in (*runs, *default))
        return before / max(after, 1e-9), not measured

    def steady(self, arm: str) -> float | None:
        """Return the seconds of a unit."""
        runs = self.of(arm)
        return statistics.median(run["steady"] for run in runs) if runs else None

    def candidates(self) -> dict[frozenset[str], tuple[float, list[Entry]]]:
        """Return what the search measured by levers: the median seconds of a unit, and the runs.

        Where the finalists were measured again, only they are there: one measurement of many is too good by chance.
        """
        runs: dict[frozenset[str], list[Entry]] = {}
        for run in self.of("best"):
            runs.setdefault(frozenset(run["levers"]), []).append(run)
        fewest = min(2, max(map(len, runs.values()), default=0))
        return {
            levers: (statistics.median(run["steady"] for run in those), those)
            for levers, those in runs.items()
            if len(those) >= fewest
        }

    def best(self, numerics: str) -> tuple[str, float] | None:
        """Return the fastest candidate of the exhaustive search whose result agrees, and its seconds of a unit."""
        reference = next((run for run in self.of("best") if run["name"] in DEFAULTS), None)
        agreeing = [
            (seconds, runs[0]["name"])
            for levers, (seconds, runs) in self.candidates().items()
            if (numerics == "relaxed" or is_exact(levers))
            and (reference is None or all(agrees(run, reference, numerics) for run in runs))
        ]
        if not agreeing:
            return None
        seconds, name = min(agreeing)
        return name, seconds

    def finalists(self) -> list[list[str]]:
        """Return the levers of the default, of the best candidates, and of what the second deployments ran with."""
        named = {run["name"]: run["levers"] for run in self.of("best")}
        best = [best[0] for numerics in AGREE if (best := self.best(numerics)) is not None]
        wanted = [named[name] for name in (*DEFAULTS, *best) if name in named]
        wanted += [ended_with(runs[-1]) for numerics in AGREE if (runs := self.of(f"second-{numerics}"))]
        return list({frozenset(levers): levers for levers in reversed(wanted)}.values())[::-1]

    def regret(self, numerics: str) -> float | None:
        """Return by how much a unit of the second deployment takes longer than one of the best candidate."""
        best, own = self.best(numerics), self.second(numerics)
        return None if best is None or own is None else max(0.0, own / best[1] - 1)

    def second(self, numerics: str) -> float | None:
        """Return the seconds of a unit with what the second deployment ran with.

        That is measured again beside the candidates; only where that failed, its own job counts.
        """
        own = self.of(f"second-{numerics}")
        if not own:
            return None
        beside = self.candidates().get(frozenset(ended_with(own[-1])))
        return float(own[-1]["steady"] if beside is None else beside[0])

    def base(self) -> float | None:
        """Return the seconds of a unit of the default, beside the candidates where it was measured there."""
        beside = [seconds for seconds, runs in self.candidates().values() if runs[0]["name"] in DEFAULTS]
        return beside[0] if beside else self.steady("default")

    def disturbed(self) -> str | None:
        """Return a sentence where the default did not always take the same time."""
        times = [run["steady"] for run in self.of("default")]
        if len(times) < 2 or max(times) < DISTURBED * min(times):
            return None
        return f"{self.name}: the default's units took from {1000 * min(times):.3g} to {1000 * max(times):.3g} ms"

    def differences(self) -> list[str]:
        """Return the arms whose results are not the default's."""
        default = self.of("default")
        wrong = []
        for arm in ARMS if default else ():
            numerics = arm.partition("-")[2]
            wrong += [f"{self.name} {arm}: the result is {run['result']:.6g}, the default's {default[0]['result']:.6g}"
                      for run in self.of(arm) if not agrees(run, default[0], numerics)]  # fmt: skip
        return wrong


def agrees(run: Entry, default: Entry, numerics: str) -> bool:
    """Tell whether the program's results are the default's, as far as the numerics want it.

    Those of inference are means over the units; others are of the last unit, and comparable after as many.
    """
    first, second = default.get("result"), run.get("result")
    comparable = run["units"] == default["units"] or run.get("kind") == "inference"
    if first is None or second is None or not comparable:
        return True
    if not math.isfinite(second):
        return False
    return bool(abs(second - first) <= AGREE[numerics] * max(abs(first), 1e-12))


def lines_of(entries: Sequence[Entry]) -> list[Line]:
    """Return the programs of results, in their order."""
    names = dict.fromkeys(entry["row"] for entry in entries)
    return [Line(name, [entry for entry in entries if entry["row"] == name]) for name in names]


def write(entries: Sequence[Entry], left_out: Sequence[str], path: Path) -> None:
    """Write the tables beside the results."""
    lines = lines_of(entries)
    path.with_suffix(".md").write_text(markdown(lines, left_out), encoding="utf-8")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["program", "kind", "arm", "round", "state", "units", "total", "trials_before", "start",
                         "compile", "steady", "result", "levers", "went_on_with", "basis", "load"])  # fmt: skip
        for entry in entries:
            settled = ["+".join(one["levers"]) or "default" for one in entry.get("settled") or []]
            values = [entry.get(key) for key in ("units", "total", "trials_before", "start", "compile", "steady")]
            arm = entry["arm"] + (f":{entry['name']}" if entry["arm"] == "best" else "")
            writer.writerow([entry["row"], entry["kind"], arm, entry["round"], entry["state"], *values,
                             entry.get("result"), "+".join(entry.get("levers") or []), " ".join(settled),
                             entry.get("basis"), entry.get("load")])  # fmt: skip


def markdown(lines: Sequence[Line], left_out: Sequence[str]) -> str:
    """Return the whole report."""
    parts = ["# Unchanged programs: the default against trials and what was learnt from them\n"]
    parts.append(
        "Times as fast as the default, whole jobs, start and trials included; `~`: the job was shorter or longer, and "
        "the rest is counted at its measured steady rate.\n"
    )
    parts.append(sections(lines))
    notes = [note for line in lines for note in (*line.failures, *line.differences())]
    parts += ["## Failed, or with another result\n", "\n".join(f"* {note}" for note in notes) or "None.", ""]
    disturbed = [sentence for line in lines if (sentence := line.disturbed())]
    if disturbed:
        parts += ["## Disturbed by other load\n", "\n".join(f"* {sentence}" for sentence in disturbed), ""]
    if left_out:
        parts += ["## Left out, for want of time\n", "\n".join(f"* {what}" for what in left_out), ""]
    return "\n".join(parts)


def sections(lines: Sequence[Line], heading: str = "##") -> str:
    """Return all tables, each with its heading."""
    parts: list[str] = []
    for minutes in LENGTHS:
        parts += [f"{heading} Jobs of {minutes} min\n", _gains(lines, minutes)]
    parts += [f"{heading} The total as forecast after 5 % of the units\n", _forecasts(lines)]
    return "\n".join([*parts, choices(lines)])


def choices(lines: Sequence[Line]) -> str:
    """Return the tables of steady rates: what was chosen beside the best of the search, and beside what users do."""
    parts = []
    if any(line.of("best") for line in lines):
        parts += ["## Steady rate, and the best of the search\n", _steady(lines)]
    if any(line.of("peer") or line.of("best") for line in lines):
        parts += ["## Steady rate, beside what else users do: times as fast as the default\n", _peers(lines)]
    return "\n".join(parts)


def short(lines: Sequence[Line], minutes: float) -> str:
    """Return the gains of first and second deployments, and their means, in jobs of one length."""
    arms = {f"{when}, {what}": f"{arm}-{what}" for when, arm in (("first", "live"), ("second", "second"))
            for what in ("exact", "relaxed")}  # fmt: skip
    rows: list[list[str]] = [["program", *arms]]
    values: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        gains = {name: line.gain(arm, minutes) for name, arm in arms.items()}
        if not any(gains.values()):
            continue
        rows.append([line.name, *("-" if gain is None else f"{gain[0]:.2f}" for gain in gains.values())])
        for name, gain in gains.items():
            if gain is not None:
                values.setdefault((line.kind, name), []).append(gain[0])
    for kind in dict.fromkeys(kind for kind, _ in values):
        means = [values.get((kind, name)) for name in arms]
        cells = [f"**{statistics.geometric_mean(one):.2f}**" if one else "-" for one in means]
        rows.append([f"geometric mean, {kind}", *cells])
    return markdown_table.markdown(rows)


def _gains(lines: Sequence[Line], minutes: float) -> str:
    rows = [["program", *ARMS]]
    values: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        cells = [line.name]
        for arm in ARMS:
            gain = line.gain(arm, minutes)
            cells.append("-" if gain is None else f"{'~' if gain[1] else ''}{gain[0]:.2f}")
            if gain is not None:
                values.setdefault((line.kind, arm), []).append(gain[0])
                values.setdefault(("all", arm), []).append(gain[0])
        rows.append(cells)
    for kind in ("inference", "training", "other", "all"):
        means = [values.get((kind, arm)) for arm in ARMS]
        if any(means):
            name = f"geometric mean, {kind}"
            rows.append([name, *(f"**{statistics.geometric_mean(mean):.2f}**" if mean else "-" for mean in means)])
    worst = [values.get(("all", arm)) for arm in ARMS]
    rows.append(["worst", *(f"{min(one):.2f}" if one else "-" for one in worst)])
    return markdown_table.markdown(rows)


def _forecasts(lines: Sequence[Line]) -> str:
    """Return by how much the forecasts of the launcher missed the time that the program took in the end."""
    rows = [["program", "default", *ARMS]]
    missed: dict[str, list[float]] = {}
    for line in lines:
        cells = [line.name]
        for arm in ("default", *ARMS):
            errors = [
                run["forecast"] / (run["total"] - run["trials_before"]) - 1
                for run in line.of(arm)
                if run.get("forecast") and run["total"] > run["trials_before"]
            ]
            missed.setdefault(arm, []).extend(map(abs, errors))
            cells.append(f"{statistics.median(errors):+.1%}" if errors else "-")
        rows.append(cells)
    medians = [f"**{statistics.median(errors):.1%}**" if errors else "-" for errors in missed.values()]
    rows.append(["median, absolute", *medians])
    every = [error for errors in missed.values() for error in errors]
    count = f"All {len(every)} jobs: median {statistics.median(every):.1%}.\n" if every else ""
    return f"{markdown_table.markdown(rows)}\n{count}"


def _steady(lines: Sequence[Line]) -> str:
    rows = [["program", "default, ms a unit", "second exact", "best exact", "regret", "second relaxed",
             "best relaxed", "regret"]]  # fmt: skip
    for line in lines:
        default = line.base()
        cells = [line.name, "-" if default is None else f"{1000 * default:.3g}"]
        for numerics in ("exact", "relaxed"):
            second, best, regret = line.second(numerics), line.best(numerics), line.regret(numerics)
            runs = line.of(f"second-{numerics}")
            levers = "+".join(ended_with(runs[-1])) or "as-is" if runs else ""
            cells.append("-" if second is None else f"{1000 * second:.3g} {levers}")
            cells.append("-" if best is None else f"{1000 * best[1]:.3g} {best[0]}")
            cells.append("-" if regret is None else f"{regret:.1%}")
        rows.append(cells)
    for numerics, column in (("exact", 4), ("relaxed", 7)):
        regrets = [regret for line in lines if (regret := line.regret(numerics)) is not None]
        if regrets:
            cells = [f"median regret, {numerics}"] + [""] * 7
            cells[column] = f"**{statistics.median(regrets):.1%}**"
            rows.append(cells)
    return markdown_table.markdown(rows)


def _peers(lines: Sequence[Line]) -> str:
    """Return how many times as fast as the default's the steady units of all others are; of ours, those measured last.

    What the second deployments ran with is measured beside the candidates, as these are.
    """
    peers = list(dict.fromkeys(run["name"] for line in lines for run in line.of("peer")))
    best_of = [f"best, {what}" for what in AGREE] if any(line.of("best") for line in lines) else []
    rows = [["program", *peers, *(f"modak, {what}" for what in AGREE), *best_of]]
    gains: dict[str, list[float]] = {name: [] for name in rows[0][1:]}
    for line in lines:
        default = line.base()
        if default is None or not (line.of("peer") or line.of("best")):
            continue
        steady = {run["name"]: run["steady"] for run in line.of("peer")}
        for what in AGREE:
            best = line.best(what)
            steady |= {f"modak, {what}": line.second(what), f"best, {what}": best and best[1]}
        shown = {name: default / steady[name] for name in gains if steady.get(name)}
        rows.append([line.name, *(f"{shown[name]:.2f}" if name in shown else "-" for name in gains)])
        for name, gain in shown.items():
            gains[name].append(gain)
    for title, figure in (("geometric mean", statistics.geometric_mean), ("worst", min)):
        rows.append([title, *(f"**{figure(values):.2f}**" if values else "-" for values in gains.values())])
    return markdown_table.markdown(rows)
