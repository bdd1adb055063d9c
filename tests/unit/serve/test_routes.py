"""The routes as clients of the job model call them."""

import copy
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.serve.settings import Settings, read_token
from rest_serving import DATA, TOKEN, Service, running

SOLVER: dict[str, Any] = json.loads((DATA / "solver.json").read_text())


def _job(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)["job"]
    return found


def test_optimise_answers_links_to_the_scripts(service: Service) -> None:
    status, headers, body = service.ask("POST", "/optimise", SOLVER)
    assert status == 200
    job = _job(body)
    assert set(job) == {*SOLVER["job"], "job_script", "build_script"}
    assert "expires" in headers
    for link, text in ((job["job_script"], "#SBATCH --job-name=solver"), (job["build_script"], "setup.py install")):
        assert link.startswith(f"http://127.0.0.1:{service.port}/files/")
        status, headers, script = service.ask("GET", link.removeprefix(f"http://127.0.0.1:{service.port}"))
        assert (status, text in script.decode(), "expires" in headers) == (200, True, True)


def test_each_route_answers_its_own_fields(service: Service) -> None:
    for route, added in (("get_image", set()), ("get_build", {"build_script"}), ("get_optimisation", {"job_content"})):
        status, _, body = service.ask("POST", f"/{route}", SOLVER)
        assert (status, set(_job(body)) - set(SOLVER["job"])) == (200, added)
        assert _job(body)["application"]["container_runtime"].startswith("docker://")


def test_an_image_that_was_named_stays_where_nothing_fits(service: Service) -> None:
    data = copy.deepcopy(SOLVER)
    data["job"]["job_options"]["request_gpus"] = 8
    data["job"]["target"] = {"name": "alps"}
    data["job"]["application"]["container_runtime"] = "docker://a/b:1"
    assert service.ask("POST", "/optimise", data)[0] == 422
    status, headers, body = service.ask("POST", "/get_image", data)
    assert (status, _job(body)["application"]["container_runtime"]) == (200, "docker://a/b:1")
    assert "request_gpus" in headers["x-modak-notes"]


def test_a_version_keeps_its_zero(service: Service) -> None:
    text = (DATA / "training.json").read_bytes().replace(b'"version": "2.1"', b'"version": 2.10')
    status, _, body = service.ask("POST", "/optimise", text)
    assert (status, b"tensorflow 2.10 is requested" in body) == (422, True)


def test_a_fault_has_its_place(service: Service) -> None:
    data = copy.deepcopy(SOLVER)
    data["job"]["job_options"] |= {"node_count": 2.5, "wall_time_limit": "90:00"}
    data["job"]["application"]["theads"] = 1
    del data["job"]["application"]["executable"]
    status, _, body = service.ask("POST", "/optimise", data)
    faults = json.loads(body)["detail"]
    assert status == 422
    assert {(tuple(fault["loc"]), fault["type"]) for fault in faults} == {
        (("body", "job", "job_options", "node_count"), "value_error"),
        (("body", "job", "job_options", "wall_time_limit"), "value_error"),
        (("body", "job", "application", "theads"), "extra_forbidden"),
        (("body", "job", "application", "executable"), "missing"),
    }


ENTRIES: dict[str, dict[str, Any]] = {
    "scripts": {
        "description": "says where it ran",
        "conditions": {"application": None, "infrastructure": {"name": "fresh"}},
        "data": {"stage": "pre", "raw": "echo on fresh"},
    },
    "infrastructures": {
        "name": "fresh",
        "disabled": "",
        "configuration": {
            "scheduler": "torque",
            "storage": {"file:///scratch": {"storage_class": "default-high"}},
            "partitions": {"*": {"nnodes": 2, "node": {"ncpus": 1, "cpu": {"ncores": 8}, "memory": "64GiB"}}},
        },
    },
    "scaling_models": {"opt_dsl_code": "solver", "model": {"name": "amdahl", "F": 0.95}},
    "container_mappings": {"opt_dsl_code": "tf_2.1", "container_name": "a/b:1", "container_type": "docker"},
}


def test_entries_are_kept_and_used(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        made = {}
        for name, entry in ENTRIES.items():
            status, headers, body = first.ask("POST", f"/{name}", entry)
            made[name] = json.loads(body)
            assert (status, headers["location"]) == (201, f"{name}/{made[name]['id']}"), body
            assert first.ask("POST", f"/{name}", entry)[0] == 409
            assert json.loads(first.ask("GET", f"/{name}")[2]) == [made[name]]
            assert first.ask("GET", f"/{name}/nothing")[0] == 404
    with running(tmp_path) as again:
        for name in ENTRIES:
            assert json.loads(again.ask("GET", f"/{name}/{made[name]['id']}")[2]) == made[name]
        assert again.ask("GET", "/container_mappings/tf_2.1")[0] == 200
        data = {"job": {"application": {"executable": "x"}, "target": {"name": "fresh"}}}
        script = _job(again.ask("POST", "/get_optimisation", data)[2])["job_content"]
        assert ("#PBS -N job" in script, "eval 'echo on fresh'" in script) == (True, True)


def test_the_token_is_asked_for(service: Service) -> None:
    assert service.ask("GET", "/health", headers={"Authorization": ""})[0] == 200
    assert service.ask("GET", "/", headers={"Authorization": ""})[0] == 200
    assert service.ask("POST", "/optimise", SOLVER, {"Authorization": ""})[0] == 401
    assert service.ask("POST", "/optimise", SOLVER, {"Authorization": "Bearer other"})[0] == 403
    assert service.ask("POST", "/get_image", SOLVER, {"Authorization": "", "X-API-Key": TOKEN})[0] == 200


def test_without_a_token_nothing_is_added_and_the_rate_is_limited(tmp_path: Path) -> None:
    with running(tmp_path, "--rate", "5", "--max-bytes", "1000", token=None) as open_service:
        assert open_service.ask("POST", "/scripts", ENTRIES["scripts"])[0] == 403
        assert open_service.ask("POST", "/optimise", b"x" * 1001)[0] == 413
        replies = [open_service.ask("GET", "/health") for _ in range(40)]
        assert {status for status, _, _ in replies} == {200, 429}
        assert next(headers for status, headers, _ in replies if status == 429)["retry-after"] == "1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1"])  # noqa: S104
def test_others_are_answered_with_a_token_alone(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="others than this machine could connect"):
        Settings(tmp_path, host=host).check()
    Settings(tmp_path, host=host, token=TOKEN).check()
    for own in ("127.0.0.1", "::1", "localhost"):
        Settings(tmp_path, host=own).check()


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o644)
    with pytest.raises(InputError, match="others may read the token"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == TOKEN


def test_it_does_not_listen_beyond_this_machine_without_a_token(tmp_path: Path) -> None:
    with running(tmp_path, "--host", "0.0.0.0", token=None) as refused:  # noqa: S104
        assert refused.process.wait(60) == 2
    assert "others than this machine could connect" in refused.log.read_text()


def test_it_answers_what_it_has_begun_before_it_ends(tmp_path: Path) -> None:
    with running(tmp_path) as ending:
        pass
    assert ending.process.returncode in (0, 143)
    lines = [json.loads(line) for line in ending.log.read_text().splitlines()]
    assert lines[-1]["message"].startswith("Finished server process")
    assert {"client", "method", "path", "status", "milliseconds"} <= set(lines[4])


def test_a_request_that_is_open_is_answered_before_it_ends(tmp_path: Path) -> None:
    """The service is told to end when half of a request is there."""
    body = (DATA / "solver.json").read_bytes()
    head = f"POST /optimise HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {TOKEN}\r\nContent-Length: {len(body)}\r\n"
    with running(tmp_path, "--site", str(DATA / "sites.yaml")) as ending:
        with socket.create_connection(("127.0.0.1", ending.port), timeout=60) as held:
            held.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body[:100])
            held_at = time.monotonic()
            while '"status": 200' not in ending.log.read_text():  # another request: the first is being read by then
                ending.ask("GET", "/health")
                assert time.monotonic() - held_at < 60
            ending.process.send_signal(signal.SIGTERM)
            while "Shutting down" not in ending.log.read_text():
                time.sleep(0.05)
                assert time.monotonic() - held_at < 60
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", ending.port), timeout=5)
            held.sendall(body[100:])
            answered = b"".join(iter(lambda: held.recv(65536), b""))
        assert answered.startswith(b"HTTP/1.1 200 ")
        assert b"job_script" in answered
        assert ending.process.wait(60) in (0, 128 + signal.SIGTERM)


def test_a_generated_client(service: Service, tmp_path: Path) -> None:
    """The client is what openapi-python-client makes of the service's own description, in an environment of its own."""
    generated = generated_client(tmp_path, service.ask("GET", "/openapi.json")[2])
    program = f"""
import json
from modak_client import AuthenticatedClient
from modak_client.api.jobs import optimise
from modak_client.models import JobDocument
client = AuthenticatedClient(base_url="http://127.0.0.1:{service.port}", token={TOKEN!r})
document = JobDocument.from_dict(json.load(open({str(DATA / "solver.json")!r})))
answer = optimise.sync_detailed(client=client, body=document)
print(answer.status_code.value, json.loads(answer.content)["job"]["job_script"])
"""
    done = subprocess.run([generated, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("200 http"), done.stdout + done.stderr


def generated_client(folder: Path, description: bytes) -> Path:
    """Generate a client into ``folder`` and return the Python that has its libraries; skip where there is none."""
    python = os.environ.get("MODAK_OPENAPI_CLIENT")
    if not python:
        pytest.skip(
            "MODAK_OPENAPI_CLIENT names no Python with openapi-python-client: pip install openapi-python-client"
        )
    (folder / "openapi.json").write_bytes(description)
    (folder / "config.yaml").write_text("package_name_override: modak_client\npost_hooks: []\n")
    program = [python, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--config", "config.yaml"]
    done = subprocess.run(
        [*program, "--meta", "none", "--output-path", "modak_client"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr.upper(), done.stdout + done.stderr
    return Path(python)


def test_curl(service: Service) -> None:
    done = subprocess.run(
        ["curl", "-sS", "-H", f"X-API-Key: {TOKEN}", "-d", f"@{DATA / 'solver.json'}",
         f"http://127.0.0.1:{service.port}/get_optimisation"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "#SBATCH --job-name=solver" in json.loads(done.stdout)["job"]["job_content"]


def test_a_page_cannot_reach_it_by_another_name(service: Service) -> None:
    assert service.ask("GET", "/health", headers={"Host": "attacker.example"})[0] == 400


def test_the_description_names_every_route(service: Service) -> None:
    described = json.loads(service.ask("GET", "/openapi.json")[2])
    routes = {(path, method) for path, methods in described["paths"].items() for method in methods}
    for name in ("optimise", "get_image", "get_build", "get_optimisation"):
        assert (f"/{name}", "post") in routes
    for name in ENTRIES:
        assert {(f"/{name}", "get"), (f"/{name}", "post"), (f"/{name}/{{identifier}}", "get")} <= routes
    assert "JobSection" in described["components"]["schemas"]
