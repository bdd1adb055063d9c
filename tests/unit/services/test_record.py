"""The record of a service, as a target that is not trusted reports it."""

import json
from pathlib import Path

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.services.record import MOST, ServiceRecord, parse, tag_of
from services import replica, seen, service_plan


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    record = seen(made, replica(1, made), replica(2, made, "retired")).record
    assert parse(record.to_json(), "probe") == record
    assert [r.id for r in record.without(record.of("retired")).replicas] == [f"{1:016x}"]
    assert parse("", "probe") is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "other"}, "another service"),
        ({"schema": "modak.service/2"}, "schema"),
        ({"revision": -1}, "revision"),
        (
            {"replicas": [{"id": "../../x", "plan": tag_of("a", "b"), "ports": [1], "state": "serving"}]},
            "replicas.0.id",
        ),
        ({"replicas": [{"id": "0" * 16, "plan": "x; rm", "ports": [1], "state": "serving"}]}, "replicas.0.plan"),
        ({"replicas": [{"id": "0" * 16, "plan": tag_of("a", "b"), "ports": [0], "state": "serving"}]}, "ports.0"),
        ({"front": {"id": "0" * 16, "address": "$(id)", "port": 1}}, "front.address"),
        ({"more": 1}, "more"),
    ],
)
def test_an_odd_record_is_refused(change: dict[str, object], problem: str) -> None:
    values = json.loads(ServiceRecord(name="probe").to_json()) | change
    with pytest.raises(TargetError, match=problem):
        parse(json.dumps(values), "probe")


def test_two_replicas_have_two_ids_and_a_record_has_an_end(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    both = [replica(1, made).model_dump(mode="json")] * 2
    with pytest.raises(TargetError, match="two replicas have one id"):
        parse(json.dumps({"schema": "modak.service/1", "name": "probe", "replicas": both}), "probe")
    for text in ("{", "[]", " " * 10 + "x", '{"name": "' + "x" * MOST + '"}'):
        with pytest.raises(TargetError, match="record of the service probe"):
            parse(text, "probe")


def test_a_tag_is_of_one_replica_of_one_service() -> None:
    assert len({tag_of("a", "0"), tag_of("b", "0"), tag_of("a", "1")}) == 3
    assert tag_of("a", "0") == tag_of("a", "0")
