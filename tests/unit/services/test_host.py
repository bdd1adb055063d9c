"""The steps of a service, as they run on this machine."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.jobs.job import folder_name
from modak_deploy.model.plan import Plan
from modak_deploy.services.front import configuration
from modak_deploy.services.host import ChangedError, Host, Probe
from modak_deploy.services.record import FrontRecord, ServiceRecord
from modak_deploy.services.replica import removal_request
from modak_deploy.services.steps import service_of
from modak_deploy.transport.local import LocalTransport
from services import replica, seen, service_plan

ID = "0" * 16


def host_of(made: Plan) -> Host:
    return Host(LocalTransport(), removal_request(made, ID))


def start_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]


def running(made: Plan, pid: int) -> None:
    """Write down a process as the job of the replica with ID, and as its supervised program."""
    folder = Path(str(made.target.workspace)) / "runs" / folder_name(removal_request(made, ID))
    for name, separator in (("state/pid", "-"), ("supervise/child", ".")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(f"{pid}{separator}{start_of(pid)}\n")


@contextmanager
def listening(user: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the process and the port of a program that listens on 127.0.0.1."""
    # It becomes the user itself: this Python may be in a folder that no other user may enter.
    code = f"import os,socket,time; {f'os.setuid({user});' if user is not None else ''}"
    code += "s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.kill()


def test_ports_of_several_replicas_stay_reserved(tmp_path: Path) -> None:
    made, other = service_plan(tmp_path), service_plan(tmp_path, name="other")
    host_of(other).write(seen(other, replica(1, other, ports=list(range(20000, 20032)))).record, 0)
    host = host_of(made)
    record = host.write(ServiceRecord(name="probe"), 0)
    counts = {f"{number:016x}": 3 for number in range(4)} | {"f" * 16: 0}
    ports = host.reserve(counts)
    taken = [port for group in ports for port in group]
    assert [len(group) for group in ports] == [3, 3, 3, 3, 0] and len(set(taken)) == 12
    assert not set(taken) & set(range(20000, 20032))
    lines = [line.split() for line in (tmp_path / "services/probe/ports").read_text().splitlines()]
    assert [(int(port), owner) for port, owner in lines] == [
        (port, owner) for owner, group in zip(counts, ports, strict=True) for port in group
    ]
    # Those that were never recorded go with the next reservation.
    kept = replica(1, made, ports=ports[1])
    host.write(record.model_copy(update={"replicas": [kept]}), record.revision)
    host.reserve({"e" * 16: 1})
    lines = [line.split() for line in (tmp_path / "services/probe/ports").read_text().splitlines()]
    assert {owner for _, owner in lines} == {kept.id, "e" * 16}


def test_recorded_and_open_ports_are_not_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = service_plan(tmp_path), service_plan(tmp_path, name="other")
    with closing(socket.create_server(("127.0.0.1", 0))) as open_socket:
        first = int(open_socket.getsockname()[1])
        monkeypatch.setattr("modak_deploy.services.host.PORTS", (first, first + 3))
        record = seen(other, replica(1, other, ports=[first + 1]), port=first + 2).record
        host_of(other).write(record, 0)
        host = host_of(made)
        host.write(ServiceRecord(name="probe"), 0)
        assert host.reserve({ID: 1}) == [[first + 3]]
        with pytest.raises(TargetError, match="no port from"):
            host.reserve({ID: 2})


def test_a_service_that_was_undeployed_comes_not_back(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    host = host_of(made)
    record = host.write(ServiceRecord(name="probe"), 0)
    assert host.remove(record.revision)
    with pytest.raises(TargetError, match="undeployed meanwhile"):
        host.reserve({ID: 1})
    with pytest.raises(ChangedError):
        host.write(record, record.revision)
    with pytest.raises(ChangedError):
        host.front("x", record.revision, "/bin/true", removal_request(made, ID))
    assert not (tmp_path / "services/probe").exists()


def test_an_empty_record_is_none(tmp_path: Path) -> None:
    host = host_of(service_plan(tmp_path))
    host.write(ServiceRecord(name="probe"), 0)
    (tmp_path / "services/probe/record").write_text("")
    assert host.look().record is None
    assert host.write(ServiceRecord(name="probe"), 0).revision == 1
    (tmp_path / "services/probe/record").write_text("")
    assert host.remove(0) and not (tmp_path / "services").exists()


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_haproxy_says_why_it_refuses_a_configuration(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    host = host_of(made)
    record = host.write(ServiceRecord(name="probe"), 0)
    outcome, said = host.front("nonsense\n", record.revision, "/usr/sbin/haproxy", removal_request(made, ID))
    assert outcome == "invalid" and "nonsense" in said
    assert host.look().configuration == ""
    fronted = seen(made, replica(1, made)).record
    assert fronted.front is not None
    text = configuration(fronted, fronted.front, service_of(made), str(tmp_path / "services/probe"))
    outcome, _ = host.front(text, record.revision, "/usr/sbin/haproxy", removal_request(made, ID))
    assert outcome == "placed" and host.look().configuration.strip() == text.strip()


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_a_configuration_that_is_not_loaded_makes_room_for_the_one_before(tmp_path: Path) -> None:
    made = service_plan(tmp_path, drain=1)
    host, request = host_of(made), removal_request(made, ID)
    record = host.write(seen(made, replica(1, made)).record, 0)
    folder = tmp_path / "services/probe"
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        fronts = [FrontRecord(id=ID, address=a, port=free.getsockname()[1]) for a in ("127.0.0.1", "192.0.2.1")]
    texts = [configuration(record, front, service_of(made), str(folder)) for front in fronts]
    assert host.front(texts[0], record.revision, "/usr/sbin/haproxy", request)[0] == "placed"
    with ExitStack() as stack:
        command = ["/usr/sbin/haproxy", "-W", "-db", "-f", str(folder / "front/haproxy.cfg")]
        proxy = stack.enter_context(subprocess.Popen(command))
        stack.callback(proxy.terminate)
        running(made, proxy.pid)
        assert host.front(texts[0], record.revision, "/usr/sbin/haproxy", request)[0] == "reloaded"
        assert host.front(texts[1], record.revision, "/usr/sbin/haproxy", request)[0] == "stays"
        assert host.look().configuration.strip() == texts[0].strip()  # a proxy that crashes is started with it
        assert host.front(texts[0], record.revision, "/usr/sbin/haproxy", request)[0] == "reloaded"


def test_a_program_without_its_shell_is_told_to_end(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    command = "sh -c 'trap \": >ended; exit\" TERM; echo $$; while :; do sleep 0.1; done' & wait"
    shell = subprocess.Popen(
        ["sh", "-c", command], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert shell.stdout is not None
    pid = int(shell.stdout.readline())
    running(made, pid)
    shell.send_signal(signal.SIGKILL)
    shell.wait()
    host_of(made).stop(removal_request(made, ID), 10)
    end = time.monotonic() + 10
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("health", ["tcp", "/"])
def test_a_port_that_nobody_listens_on_is_not_ready(tmp_path: Path, health: str) -> None:
    made = service_plan(tmp_path)
    running(made, os.getpid())
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        probe = Probe("127.0.0.1", bound.getsockname()[1], removal_request(made, ID))
        (there,) = host_of(made).ready([probe], health)
    assert (there.ready, there.runs, there.listens) == (False, True, False)


def test_who_listens_counts(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    request = removal_request(made, ID)
    with listening() as (pid, port):
        running(made, pid)
        (own,) = host_of(made).ready([Probe("127.0.0.1", port, request)], "tcp")
    assert own.ready
    if os.getuid() != 0:
        pytest.skip("a program of another user needs root")
    shutil.rmtree(tmp_path / "runs")
    running(made, os.getpid())
    with listening(user=65534) as (_, port):
        probes = [Probe("127.0.0.1", port, request, contained) for contained in (False, True)]
        foreign, contained = host_of(made).ready(probes, "tcp")
    assert (foreign.ready, foreign.listens, foreign.foreign) == (False, True, True)
    assert contained.ready and not contained.foreign and not own.foreign


class Answers(BaseHTTPRequestHandler):
    """Leads from / to /ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/ready" else 302)
        self.send_header("Location", "/ready")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("tool", ["curl", "wget", "bash"])
def test_each_tool_sees_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    if (program := shutil.which(tool)) is None:
        pytest.skip(f"{tool} is not installed")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "awk", "cat", "date", "sleep", "id", "find", "head", "tr", "sed", "readlink", "uname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / tool).symlink_to(program)
    made = service_plan(tmp_path)
    running(made, os.getpid())
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PATH", str(programs))
        probes = [Probe("127.0.0.1", server.server_port, removal_request(made, ID))]
        (ready,) = host_of(made).ready(probes, "/ready")
        (elsewhere,) = host_of(made).ready(probes, "/")
        server.shutdown()
    assert ready.ready
    assert not elsewhere.ready


def test_many_that_do_not_answer_end_with_the_step(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    with listening() as (pid, port):
        running(made, pid)
        probes = [Probe("127.0.0.1", port, removal_request(made, ID))] * 2
        began = time.monotonic()
        answers = host_of(made).ready(probes, "/", seconds=1)
    assert not any(item.ready for item in answers) and time.monotonic() - began < 14
