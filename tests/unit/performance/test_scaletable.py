"""The command modak model scale."""

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from modak_deploy.errors import InputError
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.optimiser.cli import model
from modak_deploy.performance.records import Table
from modak_deploy.performance.scaletable import scale_lines, series_of
from modak_deploy.performance.store import Store

RANKS = (2, 4, 8, 16, 32)


def _record(ranks: int, seconds: float, levers: list[str] | None = None, units: int = 1) -> Measurement:
    return Measurement(
        type="hpc",
        workload=Workload(model="solver", unit="run", units=units),
        hardware=Hardware(microarchitecture="zen2", cores=8),
        configuration=Configuration(nodes=math.ceil(ranks / 8), ranks=ranks, levers=levers or []),
        runs=[Run(total=seconds * units)],
        provenance=Provenance(source=f"job {ranks} of solver on hawk", date="2026-01-01", method="a law"),
    )


def test_law_points_and_a_table_over_ranks_are_shown() -> None:
    lines = list(scale_lines("solver", Table([_record(ranks, 10 + 90 / ranks) for ranks in RANKS])))
    assert lines[0] == "solver, zen2, native"
    assert "5 runs in 5 layouts" in lines[1]
    assert lines[2].split()[:4] == ["100%", "Amdahl", "(90,", "10),"]
    rows = {line.split()[1]: line for line in lines[4:]}
    assert list(rows) == ["1", "2", "4", "8", "16", "32", "64"]
    assert "-" in rows["1"].split()
    assert "100 s" in rows["1"]
    assert rows["8"].count(" 21.25 s") == 3  # measured, predicted, and the end of an interval without width
    assert rows["64"].split()[0] == "8"  # full nodes
    assert rows["32"].rstrip().endswith("24%")


def test_each_configuration_is_a_series_of_its_own_and_units_do_not_matter() -> None:
    plain = [_record(ranks, 10 + 90 / ranks, units=ranks) for ranks in RANKS]
    other = [_record(ranks, 5 + 45 / ranks, ["malloc-hugepages"]) for ranks in RANKS[:3]]
    series = series_of([*other, *plain])
    assert [one.title for one in series] == ["solver, zen2, native", "solver, zen2, native+malloc-hugepages"]
    assert [point.seconds for point in series[0].points] == pytest.approx([10 + 90 / ranks for ranks in RANKS])
    lines = list(scale_lines("solver", Table([*other, *plain])))
    assert "  3 layouts measured; a law needs 4 or more" in lines


def test_the_start_of_a_short_run_is_no_part_of_its_units() -> None:
    """One layout was measured by a run of ten units, all others by runs of a hundred."""
    records = []
    for ranks in RANKS:
        count, unit = 10 if ranks == 8 else 100, 1 + 9 / ranks
        run = Run(total=20.0 + count * unit + 1e-6, first=unit, later=[unit] * (count - 1))
        records.append(_record(ranks, 1.0, units=count).model_copy(update={"runs": [run]}))
    (series,) = series_of(records)
    assert [point.seconds for point in series.points] == pytest.approx([0.2 + 1 + 9 / ranks for ranks in RANKS])


def test_times_that_no_law_foretells_are_shown_as_they_are() -> None:
    lines = list(scale_lines("solver", Table([_record(ranks, 1.0 + 99 * (ranks in (4, 16))) for ranks in RANKS])))
    assert lines[1] == "  5 layouts measured; no law predicts one layout from the others"
    assert len(lines) == 3 + len(RANKS)


def test_the_command_reads_the_store_and_refuses_an_unknown_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODAK_MEASUREMENTS", f"sqlite:///{tmp_path}/store.sqlite")
    store = Store(f"sqlite:///{tmp_path}/store.sqlite")
    store.add([_record(ranks, 10 + 90 / ranks) for ranks in RANKS])
    store.close()
    done = CliRunner().invoke(model, ["scale", "solver"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "100% Amdahl" in done.output
    with pytest.raises(InputError, match="nothing was measured for the workload 'solvr'"):
        CliRunner().invoke(model, ["scale", "solvr"], catch_exceptions=False)
