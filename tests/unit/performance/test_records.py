"""Measurement files: what ships is whole, and a bad line is refused with its number and place."""

import json

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.performance.records import (
    SHIPPED,
    Table,
    Together,
    digest_of,
    load_measurements,
    read_records,
    to_line,
)
from modak_deploy.performance.series import FEW, Folded
from stores import jobs

GOOD = {
    "schema": "modak.measurement/1",
    "type": "ai_training",
    "framework": "keras",
    "workload": {"model": "net", "units": 2},
    "hardware": {"microarchitecture": "zen4", "cores": 8},
    "configuration": {"levers": []},
    "runs": [{"total": 4.0, "first": 1.5, "later": [1.0]}],
    "provenance": {"source": "a test", "date": "2026-01-02", "method": "by hand"},
}


def test_what_ships_is_read_and_speaks_of_known_levers():
    table = load_measurements()
    assert len(table.records) >= 13
    levers = load_catalogue().levers
    assert all(lever in levers for record in table.records for lever in record.configuration.levers)
    assert all(record.provenance.source and record.provenance.method for record in table.records)


def test_what_ships_is_in_canonical_form():
    for path in SHIPPED.glob("*.jsonl"):
        assert path.read_text() == "".join(to_line(record) for record in read_records(path))


def test_a_table_of_lines_is_that_of_their_records():
    records = load_measurements().records
    table = Table.of_lines(to_line(record).rstrip("\n") for record in records)
    assert table.version == Table(records).version
    assert table.of_workload("alexnet") == Table(records).of_workload("alexnet") != []
    assert table.all_records() == records


def test_a_table_in_memory_makes_series_of_many_jobs() -> None:
    few, many = jobs(FEW), jobs(20)
    assert [one for _, one in Table(few).evidence_of("mnist-cnn")] == Table(few).of_workload("mnist-cnn")
    (series,) = [one for _, one in Table(many).evidence_of("mnist-cnn")]
    assert isinstance(series, Folded)
    assert series.moments.count == 20
    excluded = {digest_of(to_line(record).rstrip("\n")) for record in many[:10]}
    (series,) = [one for _, one in Table(many).evidence_of("mnist-cnn", excluded)]
    assert isinstance(series, Folded)
    assert series.moments.count == 10
    assert len(Together([Table(many), Table(many)]).evidence_of("mnist-cnn")) == 20


def test_the_version_does_not_depend_on_the_order():
    records = load_measurements().records
    assert Table(records).version == Table(records[::-1]).version != Table(records[1:]).version


@pytest.mark.parametrize("character", ["\u2028", "\u0085"])
def test_what_was_written_is_read_again_whatever_its_texts_hold(tmp_path, character):
    (tmp_path / "good.jsonl").write_text(json.dumps(GOOD) + "\r\n")
    (record,) = read_records(tmp_path / "good.jsonl")
    provenance = record.provenance.model_copy(update={"method": f"by{character}hand"})
    odd = record.model_copy(update={"provenance": provenance})
    (tmp_path / "odd.jsonl").write_text(to_line(odd) * 2)
    assert read_records(tmp_path / "odd.jsonl") == [odd, odd]


BAD = [
    ({"runs": [{"total": -1.0}]}, "runs[0].total: must be at least 1e-15"),
    ({"runs": [{"total": 1e308}]}, "runs[0].total: must be at most"),
    ({"runs": [{"total": "4"}]}, "runs[0].total: must be a number, not '4'"),
    ({"runs": [{"total": float("nan")}]}, "runs[0].total: must be a finite number"),
    ({"runs": [{"total": 1.0, "first": 0.9, "later": [0.9]}]}, "longer than the total"),
    ({"runs": []}, "exactly one of 'runs' and 'summary'"),
    ({"runs": [{}]}, "a run needs 'total', 'first' or 'later'"),
    ({"summary": {"mean": 3.0}}, "exactly one of 'runs' and 'summary'"),
    ({"runs": [], "summary": {"mean": 3.0, "minimum": 4.0}}, "the minimum 4.0 is above the mean 3.0"),
    ({"workload": {"units": 2}}, "needs a 'model'"),
    ({"hardwear": {}}, "unknown key 'hardwear'; did you mean 'hardware'?"),
    ({"software": {"keras": 3.1}}, "software.keras: write the version in quotes"),
    ({"provenance": {"source": "x", "date": "last week", "method": "y"}}, "provenance.date"),
    ({"provenance": {"source": "x", "date": "2026-02-30", "method": "y"}}, "the date '2026-02-30' is not a calendar"),
    ({"provenance": {"source": "x", "date": "2026-13", "method": "y"}}, "the date '2026-13' is not a calendar"),
    ({"configuration": {"levers": ["one-thread", "one-thread"]}}, "the lever 'one-thread' is named twice"),
    ({"schema": "modak.measurement/9"}, "schema: must be 'modak.measurement/1' or 'modak.ratio/1'"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_a_bad_record_is_refused_with_its_line(tmp_path, change, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, **change}) + "\n")
    with pytest.raises(InputError) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ":1: invalid JSON"),
        ("", "holds no measurement"),
        ("\n", "holds no"),
        ('{"type": "hpc"}', ":1: schema: must be 'modak"),
        ('{"runs": [{"total": 1.0, "total": 2.0}]}', ":1: the key 'total' appears twice"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, text, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_records(path)
