"""Services on a host that ssh reaches: started, replaced under load, crashed, killed at any point, and removed."""

import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml

from load import Load
from onnxparts import bundle
from onnxparts import linear as linear_model
from orchestrator import Orchestrator, connection
from rig import TOP, Rig
from services_deployed import SERVER, Deployed
from serving import free_ports

SERVE = "-m modak_deploy.cli serve-model bundle --http-port {port} --grpc-port {grpc} --metrics-port {metrics}"
KILLS = [float(text) for text in os.environ.get("MODAK_SERVICE_KILLS", "2.0 3.5 5.0 6.5 8.0").split()]
"""Seconds after which a controller is killed."""


@pytest.fixture
def make(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> Iterator[object]:
    made: list[Deployed] = []

    def one(**application: object) -> Deployed:
        made.append(Deployed(tmp_path, environment, real_slurm, application))
        made[-1].version("one")
        return made[-1]

    yield one
    for service in made:
        service.modak("undeploy")
        assert service.left() == []


def test_replacement_under_load(make):
    service = make(service={"replicas": 2})
    first = service.deploy()
    assert first["changed"] and first["service"]["ready"] and len(first["service"]["replicas"]) == 2
    assert service.deploy()["changed"] is False
    assert service.get() == "one"
    (status,) = service.modak("status")
    assert status["state"] == "ready"
    assert "this is version one" in service.modak("logs")["text"]
    with Load(service.port, most=5000, pause=0.02) as load:
        load.wait_for(100)
        assert service.deploy("two")["changed"]
        seen = sum(load.answers.values())
        load.wait_for(seen + 100)
    print(load.answers, load.failures)
    assert load.failures == []
    assert load.order[0] == "one" and load.order[-1] == "two"
    assert service.get() == "two"
    assert service.supervised() == 2


def test_the_change_of_a_number_of_replicas(make):
    service = make()
    first = service.deploy()["service"]["replicas"]
    service.document["application"]["service"]["replicas"] = 3
    service.write()
    preview = service.deploy(None, "--check")
    assert preview["changed"] and service.supervised() == 1
    more = service.deploy()["service"]["replicas"]
    assert len(more) == 3 and first[0]["id"] in {replica["id"] for replica in more}
    service.document["application"]["service"]["replicas"] = 1
    service.write()
    assert len(service.deploy()["service"]["replicas"]) == 1 and service.supervised() == 1


def test_a_crash_and_a_reboot(make):
    service = make()
    service.deploy()
    with pytest.raises(OSError):
        service.get("/die")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            assert service.get() == "one"
            break
        except OSError:
            time.sleep(0.2)
    assert service.deploy()["changed"] is False
    (replica,) = service.modak("status")[0]["service"]["replicas"]
    assert replica["restarts"] == 1
    # All processes gone at once, as after a reboot.
    pids = [line.split()[0] for line in service.processes(".")]
    service.rig.ssh(f"kill -KILL {' '.join(pids)}; true")
    again = service.deploy()
    assert again["changed"] and service.get() == "one" and service.supervised() == 1


@pytest.mark.parametrize("version", ["sick", "broken"])
def test_a_version_that_is_not_ready_leaves_the_old_one(make, version):
    service = make(service={"start_limit": 6})
    service.deploy()
    with Load(service.port, most=5000, pause=0.02, clients=2) as load:
        load.wait_for(20)
        answer = service.deploy(version, code=5)
        load.wait_for(sum(load.answers.values()) + 20)
    message = json.dumps(answer)
    assert f"this is version {version}" in message and "not ready within 6 s" in message
    assert load.failures == [] and set(load.answers) == {"one"}
    assert service.supervised() == 1
    assert service.deploy("one")["changed"] in (True, False) and service.get() == "one"


def test_controllers_killed_at_any_point(make):
    service = make()
    service.deploy()
    with Load(service.port, most=20000, pause=0.03, clients=2) as load:
        for number, seconds in enumerate(KILLS):
            service.version(f"v{number}")
            killed = subprocess.Popen(
                service.words("deploy"), cwd=service.folder, env=service.environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                killed.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(killed.pid, 9)
                killed.communicate()
            record = service.rig.ssh(f"cat .modak/services/{service.name}/record")
            print(seconds, killed.returncode, re.findall(r'"state":"(\w+)"', record))
            result = service.deploy()
            assert result["service"]["ready"] and len(result["service"]["replicas"]) == 1
            assert service.get() == f"v{number}"
            assert service.supervised() == 1
    print(load.answers, load.failures)
    assert load.failures == []


def test_a_crash_of_the_front(make):
    service = make()
    service.deploy()
    masters = [line for line in service.processes("haproxy -W") if "supervise.sh" not in line]
    pids = [line.split()[0] for line in masters]
    service.rig.ssh(f"kill -KILL {' '.join(pids)}; true")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            assert service.get() == "one"
            break
        except OSError:
            time.sleep(0.2)
    assert service.deploy()["changed"] is False
    assert service.deploy("two")["changed"] and service.get() == "two"
    workers = [line for line in service.processes("haproxy") if "supervise.sh" not in line]
    assert len(workers) == 2, workers  # the master and one worker


@pytest.mark.long
def test_two_controllers_at_once(make):
    service = make()
    service.deploy()
    folder = service.folder / "other"
    folder.mkdir()
    for name in ("server.py", "deploy.yml"):
        (folder / name).write_bytes((service.folder / name).read_bytes())
    with Load(service.port, most=20000, pause=0.03, clients=2) as load:
        for number in range(3):
            service.version(f"a{number}")
            (folder / "version.txt").write_text(f"b{number}")
            both = [
                subprocess.Popen(
                    service.words("deploy"), cwd=cwd, env=service.environment, stdout=subprocess.PIPE, text=True
                )
                for cwd in (service.folder, folder)
            ]
            texts = [process.communicate(timeout=300)[0] for process in both]
            for process, text in zip(both, texts, strict=True):
                assert process.returncode == 0 or "another run" in text or "not ready" in text, text
            print([process.returncode for process in both])
            assert service.deploy()["service"]["ready"]
            assert service.get() == f"a{number}" and service.supervised() == 1
    assert load.failures == []


def test_two_first_deployments_at_once(make):
    service = make()
    both = [
        subprocess.Popen(service.words("deploy"), cwd=service.folder, env=service.environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    texts = [process.communicate(timeout=300)[0].decode() for process in both]
    for process, text in zip(both, texts, strict=True):
        assert process.returncode == 0 or "another run" in text, text
    assert service.deploy()["service"]["ready"] and service.get() == "one" and service.supervised() == 1
    shells = [line for line in service.processes("supervise.sh") if "/bin/sh" in line and "haproxy" in line]
    assert len(shells) == 1, shells


def test_a_busy_replica_stays(make):
    service = make()
    program = service.folder / "server.py"
    text = program.read_text().replace("ThreadingHTTPServer", "HTTPServer")  # one request at a time
    program.write_text(text.replace("sleep(3)", "sleep(7)"))
    service.deploy()
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(service.get, "/slow")
        time.sleep(5.5)
        assert service.get() == "one"
        assert slow.result() == "one"


def test_settings_of_the_front(make):
    service = make()
    service.deploy()
    service.document["application"]["service"]["timeout"] = 9
    service.write()
    assert service.deploy(None, "--check")["changed"]
    assert service.deploy()["changed"]
    assert service.deploy(None, "--check")["changed"] is False and service.deploy()["changed"] is False


def test_the_only_replica_stays_where_an_input_is_missing(make):
    service = make(service={"front": "none"})
    service.deploy()
    service.document["application"]["secret_environment"] = {"TOKEN": {"file": "absent.txt"}}
    service.write()
    service.modak("deploy", code=2)
    assert service.get() == "one" and service.supervised() == 1


def test_without_a_front(make):
    service = make(service={"front": "none", "drain": 5})
    service.document["target"] |= {"type": "cloud", "cloud": {"provider": "existing"}}
    service.write()
    service.deploy()
    assert service.deploy()["changed"] is False and service.get() == "one"
    assert service.deploy("two")["changed"] and service.get() == "two"
    assert service.processes("haproxy") == [] and service.supervised() == 1


def test_a_port_of_another_program(make):
    service = make()
    taken = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(service.port)])
    try:
        time.sleep(1.5)
        answer = service.deploy(code=2)
        assert "another program listens" in json.dumps(answer)
    finally:
        taken.kill()
        taken.wait()


def test_playbooks(make, real_slurm):
    service = make()

    def play(name: str, *more: str, code: int = 0) -> str:
        words = ["ansible-playbook", "-i", str(real_slurm.inventory), f"modak.deploy.{name}",
                 "-e", "deployment=deploy.yml", *more]  # fmt: skip
        done = subprocess.run(
            words, cwd=service.folder, env=service.environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, done.stdout[-4000:]
        return done.stdout

    assert re.search(r"slurm-login .*changed=2", play("deploy", "--check"))  # the Plan and the service
    assert service.left() == []
    play("deploy")
    assert service.get() == "one"
    assert re.search(r"slurm-login .*changed=0", play("deploy"))
    service.version("two")
    play("deploy")
    assert service.get() == "two"
    assert "application_timeout: not supported" in play("deploy", "-e", "timeout_seconds=60", code=2)
    play("undeploy")
    assert service.left() == []


@pytest.fixture
def serving(real_slurm: Rig) -> str:
    """An interpreter with MLServer that the host's user can run."""
    python = os.environ.get("MODAK_SERVE_PYTHON", "")
    if not python:
        pytest.skip("MODAK_SERVE_PYTHON names no interpreter with MLServer")
    real_slurm.ssh(f"{python} -c 'import mlserver'")
    return python


def test_an_inference_bundle(make, serving):
    service = make(
        type="ai_inference",
        script=None,
        executable=serving,
        arguments=SERVE.split(),
        inputs=["bundle"],
        environment={"PYTHONPATH": str(TOP)},
        service={"health": "/v2/health/ready", "further_ports": ["grpc", "metrics"], "start_limit": 120, "drain": 30},
    )
    weights = np.eye(4, 3, dtype=np.float32)
    bundle(service.folder / "bundle", {"line": linear_model(weights)})
    assert service.deploy()["service"]["ready"]
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 1, 1, 1]}]})

    def answer(data: bytes) -> str:
        return str(json.loads(data)["outputs"][0]["data"])

    with Load(service.port, "/v2/models/test/infer", body, clients=4, most=5000, pause=0.05, answer=answer) as load:
        load.wait_for(100)
        subprocess.run(["rm", "-r", str(service.folder / "bundle")], check=True)
        bundle(service.folder / "bundle", {"line": linear_model(2 * weights)})
        assert service.deploy()["changed"]
        load.wait_for(sum(load.answers.values()) + 100)
    print(load.answers, load.failures)
    assert load.failures == []
    assert load.order[0] == "[1.0, 1.0, 1.0]" and load.order[-1] == "[2.0, 2.0, 2.0]"


def test_a_blueprint(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    opera = Orchestrator.on_tiny(tmp_path, environment, "Machine")
    blueprint = yaml.safe_load(opera.blueprint.read_text())
    (port,) = free_ports(1)
    name = f"service-{secrets.token_hex(4)}"
    template = blueprint["topology_template"]["node_templates"]["tiny"]
    (opera.blueprint.parent / "server.py").write_bytes(SERVER.read_bytes())
    (opera.blueprint.parent / "version.txt").write_text("one")
    template["artifacts"]["script"]["file"] = "server.py"
    template["artifacts"]["version"] = {"type": "modak.artifacts.Input", "file": "version.txt"}
    for key in ("metrics", "job"):
        del template["properties"][key]
    template["properties"] |= {
        "arguments": ["{port}"],
        "service": {"port": port, "health": "/", "start_limit": "40 s"},
        "inputs": [{"get_artifact": ["SELF", "version"]}],
    }
    blueprint["topology_template"]["outputs"]["url"] = {"value": {"get_attribute": ["tiny", "service_url"]}}
    opera.blueprint.write_text(yaml.safe_dump(blueprint))
    opera.inputs(name=name, **connection(real_slurm))
    ended = opera.deploy(timeout=300)
    assert ended.code == 0, ended.text
    outputs = opera.outputs()
    assert (outputs["url"], outputs["state"]) == (f"http://127.0.0.1:{port}", "ready")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=30) as response:
        assert response.read() == b"one"
    ended = opera.run("undeploy", timeout=300)
    assert ended.code == 0, ended.text
    assert real_slurm.ssh(f"ls -d .modak/runs/{name}* .modak/services/{name} 2>/dev/null; true") == ""
