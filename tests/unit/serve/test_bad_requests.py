"""A thousand bad requests: each is answered with a status of 4xx and a message, and none breaks the service."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rest_serving import DATA, Service, running

ROUTES = ("/optimise", "/get_image", "/get_build", "/get_optimisation")
VALUES: list[Any] = [
    [[]], {"$": 1}, [None, {"a": []}], 10**30, -(10**18), 1e308, "\x00", "a\nb", "\u202e", "x" * 100_000, "{{7*7}}\n",
]  # fmt: skip
BODIES = [
    b"", b"{", b"null", b"[]", b"1e999", b"NaN", b"\xff\xfe", b'{"job": NaN}', b'"job"', b'{"job": {}}', b'{"job": 1}',
    b'{"job": {"application": null}}', b'{"job": {"application": {"executable": "\\ud800"}}}', b"[" * 100_000,
    b'{"a":' * 50_000, b'{"job": {"application": {"executable": ' + b"9" * 5000 + b"}}}", b"x" * 2_000_000,
    b'{"job": {"application": {"executable": "x"}}, "more": 1}',
]  # fmt: skip
OTHERS = [
    ("GET", "/optimise"), ("PUT", "/scripts"), ("DELETE", "/infrastructures/1"), ("GET", "/nothing"),
    ("GET", "/files/../../etc/passwd"), ("GET", "/files/%2e%2e/x.sh"), ("GET", "/files/0/x.sh"), 
    ("GET", "/scripts/%00"), ("GET", "/../etc"),
    ("GET", "/files/" + "0" * 32 + "/%2e%2e%2fx.sh"), ("PATCH", "/"), ("GET", "/scripts/" + "9" * 5000),
]  # fmt: skip


def _places(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _places(value, (*path, key))


def _changed(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(data)
    section: Any = made
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return made


def _requests() -> Iterator[tuple[str, str, Any, bool]]:
    """Yield method, path, body, and whether it is bad whatever the field means."""
    for method, path in OTHERS:
        yield method, path, None, True
    for body in BODIES:
        for route in (*ROUTES, "/scripts", "/infrastructures", "/scaling_models", "/container_mappings"):
            yield "POST", route, body, True
    number = 0
    for name in ("solver", "training"):
        data = json.loads((DATA / f"{name}.json").read_text())
        for path in _places(data):
            for value in VALUES:
                yield "POST", ROUTES[number % 4], _changed(data, path, value), isinstance(value, list | dict)
                number += 1


def test_a_thousand_bad_requests(service: Service) -> None:
    counts: Counter[int] = Counter()
    for method, path, body, is_bad in _requests():
        status, _, answer = service.ask(method, path, body)
        counts[status] += 1
        shown = (method, path, str(body)[:300], status, answer[:300])
        assert status < 500, shown
        assert status >= 400 or not is_bad, shown
        if status >= 400:
            assert all(fault["msg"] for fault in json.loads(answer)["detail"]), shown
            assert b"Traceback" not in answer
    assert sum(number for status, number in counts.items() if status >= 400) >= 1000, counts
    assert "Traceback" not in service.log.read_text()
    assert service.ask("GET", "/health")[0] == 200


def test_a_number_that_json_cannot_write_is_kept_by_no_list(tmp_path: Path) -> None:
    """Each later answer with it would fail: the list of all scripts, for everybody and for ever."""
    entry = b'{"conditions": {"application": {"feature": {"count": 1e999}}}, "data": {"stage": "pre", "raw": "true"}}'
    job = b'{"job": {"application": {"executable": "x"}, "optimisation": {"app_type": "hpc", "app_name": -1e999}}}'
    with running(tmp_path) as service:
        for path, body in (("/scripts", entry), ("/optimise", job), ("/get_image", job)):
            status, _, answer = service.ask("POST", path, body)
            assert status == 422, (path, answer)
            assert "1e999' is larger than any number" in json.loads(answer)["detail"][0]["msg"]
        assert service.ask("GET", "/scripts")[::2] == (200, b"[]")


def test_notes_on_what_a_document_holds_bring_no_control_characters(service: Service) -> None:
    optimisation = {"app_type": "hpc", "enable_autotuning": True, "autotuning": {"tuner": "a\x1b[2J\x7fb"}}
    job = {"application": {"executable": "x"}, "optimisation": optimisation}
    status, headers, _ = service.ask("POST", "/optimise", {"job": job})
    assert status == 200
    assert r"the tuner 'a\u001b[2J\u007fb' is not started" in headers["x-modak-notes"]


def test_a_number_that_an_earlier_version_kept_is_listed_as_text(tmp_path: Path) -> None:
    condition = {"application": {"feature": {"count": "@"}}}
    entry = {"id": "0123456789abcdef", "conditions": condition, "data": {"stage": "pre", "raw": "true"}}
    (tmp_path / "kept" / "scripts").mkdir(parents=True)
    text = json.dumps(entry).replace('"@"', "Infinity")
    (tmp_path / "kept" / "scripts" / f"{entry['id']}.json").write_text(text)
    with running(tmp_path) as service:
        status, _, answer = service.ask("GET", "/scripts")
        assert (status, json.loads(answer)[0]["conditions"]["application"]["feature"]) == (200, {"count": "Infinity"})
