"""The transport of the command line on a real sshd: by OpenSSH's client, and by paramiko where that is absent."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.jobs.remote import ask
from modak_deploy.transport import process, ssh_connection
from modak_deploy.transport.base import Completed
from modak_deploy.transport.paramiko_ssh import ParamikoTransport
from modak_deploy.transport.ssh import SshTransport, transport_to
from outages import drop_sessions, without_login
from rig import TOP, Rig

HOST = "slurm-login"
BOTH = pytest.mark.parametrize("kind", [SshTransport, ParamikoTransport])
Kind = type[SshTransport] | type[ParamikoTransport]


@pytest.fixture
def config(real_slurm: Rig, tmp_path: Path) -> Callable[..., Path]:
    """Return the function that writes the user's configuration with changes."""

    def write(more: str = "", **replaced: str) -> Path:
        text = real_slurm.ssh_config.read_text()
        for name, value in replaced.items():
            lines = [line for line in text.splitlines() if not line.strip().startswith(f"{name} ")]
            text = "\n".join([*lines, f"    {name} {value}", ""])
        file = tmp_path / "config"
        file.write_text(text + more)
        return file

    return write


def masters(rig: Rig) -> int:
    """Return how many logins of the rig's user sshd serves."""
    listed = subprocess.run(["ps", "-u", rig.home.owner(), "-o", "comm="], capture_output=True, text=True).stdout
    return sum(line.startswith("sshd") for line in listed.splitlines())


def inner(real_slurm: Rig, changes: str = "") -> str:
    """Return the configuration of a host behind the login node, which is the login node again."""
    text = real_slurm.ssh_config.read_text().replace(f"Host {HOST}", "Host inner")
    return f"\n{text}    ProxyJump {HOST}\n{changes}"


@BOTH
def test_commands_and_files(kind: Kind, real_slurm: Rig, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    remote = str(real_slurm.home / 'it\'s a "copy" $(id)')
    with kind(HOST, config=real_slurm.ssh_config) as transport:
        done = transport.run("cat | wc -c; echo e >&2; exit 3", stdin=data)
        assert done == Completed(3, f"{len(data)}\n", "e\n")
        assert transport.run("exit 255").returncode == 255
        assert ask(transport, "echo $0").stdout == "sh\n"
        (tmp_path / "file").write_bytes(data)
        transport.put(tmp_path / "file", remote)
        transport.fetch(remote, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        with pytest.raises(TargetError, match=r"did not answer within 0\.3 s"):
            transport.run("sleep 30", timeout=0.3)
        with pytest.raises(TargetError, match=r"cannot be copied to .*nowhere"):
            transport.put(tmp_path / "file", "/nowhere/file")
        with pytest.raises(TargetError, match=r"nowhere/file cannot be copied to"):
            transport.fetch("/nowhere/file", tmp_path / "none")


def test_all_commands_take_one_connection_which_ends_with_the_transport(real_slurm: Rig) -> None:
    connections: set[str] = set()

    def run(more: str = "") -> None:
        connections.add(transport.run(f'echo "$SSH_CONNECTION"{more}').stdout)

    with SshTransport(HOST, config=real_slurm.ssh_config) as transport:
        for _ in range(5):
            run()
        threads = [
            threading.Thread(target=run, args=("; sleep 0.3",)) for _ in range(16)
        ]  # more than sshd lets in at once
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        folder = transport._connected()._folder
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(str(folder / "s")) < 86
    assert len(connections) == 1
    assert not folder.exists()


def test_connection_of_a_killed_process_ends_by_itself(real_slurm: Rig, tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path; from modak_deploy.transport import ssh, ssh_connection;"
        "ssh_connection.PERSIST = 1;"
        "t = ssh.SshTransport(sys.argv[1], config=Path(sys.argv[2])); print(t.run('echo up').stdout, flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    before = masters(real_slurm)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(TOP)}
    environment.pop("XDG_RUNTIME_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code, HOST, str(real_slurm.ssh_config)],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (-signal.SIGKILL, "up")
    deadline = time.monotonic() + 30
    while masters(real_slurm) > before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert masters(real_slurm) <= before


def test_connection_that_broke_is_an_error_and_is_made_anew(real_slurm: Rig) -> None:
    with SshTransport(HOST, config=real_slurm.ssh_config) as transport:
        transport.run("true")
        threading.Timer(0.5, drop_sessions, (real_slurm,)).start()
        with pytest.raises(TargetError, match="cannot be reached"):
            transport.run("sleep 20")
        assert transport.run("echo again").stdout == "again\n"


def test_connection_killed_while_idle_is_made_anew(real_slurm: Rig, tmp_path: Path) -> None:
    (tmp_path / "local").write_text("content")
    with SshTransport(HOST, config=real_slurm.ssh_config) as transport:
        for use in ("run", "put", "fetch"):
            transport.run("echo as it was >modak-idle")
            shared = transport._connected()
            check = subprocess.run(
                [*shared.options, "-O", "check", "--", shared.host], capture_output=True, text=True, check=True
            )
            os.kill(int(re.search(r"pid=(\d+)", check.stderr)[1]), signal.SIGKILL)
            time.sleep(0.2)
            assert shared.is_open()  # its socket is still there
            if use == "run":
                assert transport.run("echo x >>modak-idle; cat modak-idle").stdout == "as it was\nx\n"
            elif use == "put":
                transport.put(tmp_path / "local", "modak-idle")
                assert transport.run("cat modak-idle").stdout == "content"
            else:
                transport.fetch("modak-idle", tmp_path / "back")
                assert (tmp_path / "back").read_text() == "as it was\n"
        transport.run("rm modak-idle")


def test_words_of_the_target_do_not_repeat_a_command(real_slurm: Rig) -> None:
    """What looks like ssh's own message comes from the command, which has run."""
    said = "Control socket connect(/tmp/s): Connection refused"
    with SshTransport(HOST, config=real_slurm.ssh_config) as transport:
        line = f"echo x >>modak-words; echo {said!r} >&2; exit 255"
        assert transport.run(line).returncode == 255
        assert transport.run("cat modak-words; rm modak-words").stdout == "x\n"


def test_login_node_that_is_away(real_slurm: Rig) -> None:
    with (
        SshTransport(HOST, config=real_slurm.ssh_config) as transport,
        without_login(real_slurm),
        pytest.raises(
            TargetError, match=r"slurm-login \(modakt\d?@127\.0\.0\.1 port \d+\) cannot be reached: .*refused"
        ),
    ):
        transport.run("true")


def test_jump_host_and_its_name(real_slurm: Rig, config: Callable[..., Path], tmp_path: Path) -> None:
    """The second host is the same machine, reached through the first one."""
    with SshTransport("inner", config=config(inner(real_slurm))) as transport:
        assert len(transport.run('printf %s "$SSH_CLIENT"').stdout.split()) == 3
        (tmp_path / "file").write_text("x")
        transport.put(tmp_path / "file", str(real_slurm.home / "over a jump"))
        transport.fetch(str(real_slurm.home / "over a jump"), tmp_path / "back")
        assert (tmp_path / "back").read_text() == "x"


@pytest.mark.parametrize("value", ["no", "accept-new"])
@pytest.mark.parametrize("host", [HOST, "inner"])
def test_lax_configuration_does_not_let_in_an_unknown_host(
    host: str, value: str, real_slurm: Rig, config: Callable[..., Path], tmp_path: Path
) -> None:
    unknown = {"StrictHostKeyChecking": value, "UserKnownHostsFile": str(tmp_path / "none")}
    file = config(inner(real_slurm), **unknown)
    with (
        SshTransport(host, config=file, interactive=False) as transport,
        pytest.raises(TargetError, match=r"host key of .* is not in known_hosts: log in once with ssh"),
    ):
        transport.run("true")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("chain", ["slurm-login", "slurm-login,second"])
def test_lax_jump_hosts_whose_keys_are_known(chain: str, real_slurm: Rig, config: Callable[..., Path]) -> None:
    text = real_slurm.ssh_config.read_text()
    second = text.replace(f"Host {HOST}", "Host second")
    file = config(f"\n{second}\n{inner(real_slurm).replace(f'ProxyJump {HOST}', f'ProxyJump {chain}')}",
                  StrictHostKeyChecking="no")  # fmt: skip
    with SshTransport("inner", config=file, interactive=False) as transport:
        assert transport.run("echo in").stdout == "in\n"


@BOTH
def test_host_key_that_has_changed(kind: Kind, real_slurm: Rig, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    name = (real_slurm.folder / "client" / "known_hosts").read_text().split()[0]
    known = tmp_path / "known hosts"
    known.write_text(f"{name} {' '.join((tmp_path / 'other.pub').read_text().split()[:2])}\n")
    with (
        kind(HOST, config=real_slurm.ssh_config, known_hosts=known) as transport,
        pytest.raises(TargetError, match="shows another host key than the one in known_hosts") as caught,
    ):
        transport.run("true")
    assert kind is ParamikoTransport or f"{known}, line 1" in str(caught.value)


@BOTH
def test_key_that_is_not_accepted(kind: Kind, real_slurm: Rig, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with (
        kind(HOST, user="nobody", config=real_slurm.ssh_config, private_key=tmp_path / "key") as transport,
        pytest.raises(TargetError, match="accepts none of the keys offered"),
    ):
        transport.run("true")


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ("\nHost away\n    HostName nowhere.invalid\n", TargetError, "its name was not found"),
        ("\nHost away\n    HostName 127.0.0.1\n    Port 9\n", TargetError, "Connection refused"),
        ("\nHost away\n    ProxyCommand exit 3\n", TargetError, "cannot be reached"),
        ("\nHost away\n    NoSuchOption yes\n", InputError, r"the SSH configuration is not valid: .*nosuchoption"),
    ],
)
def test_host_that_cannot_be_reached(more: str, error: type[Exception], text: str, config: Callable[..., Path]) -> None:
    with SshTransport("away", config=config(more)) as transport, pytest.raises(error, match=text) as caught:
        transport.run("true")
    assert "\n" not in str(caught.value)


def test_configuration_made_for_the_shell_does_no_harm(real_slurm: Rig, config: Callable[..., Path]) -> None:
    file = config(RemoteCommand="tmux", RequestTTY="force", LocalForward="1 localhost:2", LogLevel="DEBUG3",
                  ControlMaster="auto", ControlPath="/nowhere/%C")  # fmt: skip
    with SshTransport(HOST, config=file, interactive=False) as transport:
        assert transport.run("echo out; echo err >&2") == Completed(0, "out\n", "err\n")


def test_more_output_than_is_taken(real_slurm: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.run, "__kwdefaults__", {**process.run.__kwdefaults__, "max_stdout": 1024**2})
    with SshTransport(HOST, config=real_slurm.ssh_config) as transport:
        with pytest.raises(TargetError, match="more than 1 MiB came by standard output"):
            transport.run("yes")
        with pytest.raises(TargetError, match="more than 1 MiB came by standard error"):
            transport.run("yes >&2")
        assert transport.run("echo on").stdout == "on\n"


def test_without_the_program_ssh(real_slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with transport_to(HOST, config=real_slurm.ssh_config) as transport:
        assert isinstance(transport, ParamikoTransport)
        assert transport.run("echo by paramiko").stdout == "by paramiko\n"


def test_with_the_program_ssh() -> None:
    assert isinstance(transport_to(HOST), SshTransport)


def test_folder_for_the_socket_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(name, str(long))
    monkeypatch.setattr(ssh_connection.tempfile, "tempdir", None)
    folder = ssh_connection.private_folder()
    try:
        assert folder.parent == Path("/tmp")
    finally:
        shutil.rmtree(folder)


def test_folders_that_killed_processes_left_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(ssh_connection, "_SOCKET_LENGTH", 200)
    names = ("modak-ssh-old_12ab", "modak-ssh-new_12ab", "modak-ssh-used_2ab", "other")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / ssh_connection.ERRORS).touch()
    (tmp_path / names[2] / "s").touch()
    for name in (names[0], *names[2:]):
        os.utime(tmp_path / name, (1, 1))
    folder = ssh_connection.private_folder()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], folder.name])


def test_passphrase_is_asked_for_on_the_terminal(real_slurm: Rig, tmp_path: Path) -> None:
    """A key with a passphrase stands for all that ssh asks: one-time passwords go the same way."""
    key = tmp_path / "key"
    shutil.copy(real_slurm.folder / "client" / "id_ed25519", key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "sesame", "-f", key], check=True)
    text = real_slurm.ssh_config.read_text().replace("BatchMode yes", "")
    (tmp_path / "config").write_text(
        "".join(f"{line}\n" for line in text.splitlines() if "IdentityFile" not in line) + f"    IdentityFile {key}\n"
    )
    code = (
        "import json, sys; from pathlib import Path; from modak_deploy.transport.ssh import SshTransport;"
        "t = SshTransport(sys.argv[1], config=Path(sys.argv[2]));"
        "o = [t.run('echo hello').stdout for _ in range(2)]; t.close(); Path(sys.argv[3]).write_text(json.dumps(o))"
    )
    answer = tmp_path / "answer"
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-c", code, HOST, str(tmp_path / "config"), str(answer)]
        os.execve(words[0], words, {**os.environ, "PYTHONPATH": str(TOP), "SSH_AUTH_SOCK": ""})  # noqa: S606
    seen = b""
    try:
        while b"passphrase" not in seen:
            seen += os.read(terminal, 1000)
        os.write(terminal, b"sesame\n")
        while True:
            seen += os.read(terminal, 1000)
    except OSError:  # the terminal is closed: the process has ended
        pass
    finally:
        os.waitpid(pid, 0)
        os.close(terminal)
    assert answer.exists(), seen
    assert json.loads(answer.read_text()) == ["hello\n", "hello\n"]
    assert seen.count(b"Enter passphrase") == 1
