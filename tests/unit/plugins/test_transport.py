"""Ansible's connection as a transport, with a connection that is this machine and fails where a test wants it."""

import importlib.util
import secrets
import shutil
import subprocess
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from modak_deploy.errors import InputError, TargetError
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import encode

FILE = Path(__file__).parents[3] / "plugins" / "plugin_utils" / "transport.py"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("modak_plugin_transport", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Connection:
    """A connection to this machine."""

    def __init__(self, *, has_pipelining: bool) -> None:
        self.has_pipelining = has_pipelining
        self.resets = 0
        self.hang = threading.Event()

    def put_file(self, local: str, remote: str) -> None:
        shutil.copyfile(local, remote)

    def fetch_file(self, remote: str, local: str) -> None:
        shutil.copyfile(remote, local)

    def reset(self) -> None:
        self.resets += 1
        self.hang.set()


class Action:
    """As much of an action plugin as the transport uses."""

    def __init__(self, *, has_pipelining: bool = True, become: bool = False, **environment: str) -> None:
        self._play_context = SimpleNamespace(become=become)
        self._connection = Connection(has_pipelining=has_pipelining)
        self._environment = environment
        self.failure: Exception | None = None
        self.commands: list[str] = []

    def _compute_environment_string(self, raw: dict[str, Any]) -> str:
        raw.update(self._environment)
        return ""

    def _low_level_execute_command(self, command: str, *, sudoable: bool, in_data: bytes | None) -> dict[str, Any]:
        assert not sudoable
        self.commands.append(command)
        if self.failure is not None:
            raise self.failure
        if "hang" in command:
            self._connection.hang.wait(10)
        # As Ansible does it: the whole is quoted once more, and something is added.
        done = subprocess.run(["/bin/sh", "-c", f"{command} && sleep 0"], input=in_data, capture_output=True)
        decoded = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        stdout, stderr = decoded
        return {"rc": done.returncode, "stdout": stdout, "stderr": stderr}


@pytest.mark.parametrize("has_pipelining", [True, False])
def test_both_outputs_exit_code_and_standard_input(module: ModuleType, has_pipelining: bool) -> None:
    action = Action(has_pipelining=has_pipelining)
    transport = module.AnsibleTransport(action, "there")
    data = bytes(range(256)) * 100
    done = transport.run("cat\necho err >&2\nexit 7\n", stdin=data)
    assert (done.returncode, encode(done.stdout), done.stderr) == (7, data, "err\n")
    if not has_pipelining:
        folder = transport.run("ls -d ${TMPDIR:-/tmp}/modak.????????")
        assert folder.stdout == "", "the private folder for standard input is gone again"


def test_without_data_standard_input_is_empty(module: ModuleType) -> None:
    assert module.AnsibleTransport(Action(), "there").run("cat; echo end") == Completed(0, "end\n", "")


def test_environment_of_the_task(module: ModuleType) -> None:
    action = Action(SITE="a 'b' $(id)")
    assert module.AnsibleTransport(action, "there").run('printf %s "$SITE"').stdout == "a 'b' $(id)"


def test_become_is_refused(module: ModuleType) -> None:
    with pytest.raises(InputError, match="become is not supported: jobs and their files belong to the user"):
        module.AnsibleTransport(Action(become=True), "there")


def test_lost_connection_is_one_sentence(module: ModuleType) -> None:
    action = Action()
    action.failure = AnsibleConnectionFailure(
        "Failed to connect to the host via ssh: ssh: connect to host there port 22:\nConnection refused"
    )
    with pytest.raises(TargetError) as caught:
        module.AnsibleTransport(action, "there").run("true")
    assert str(caught.value) == "there cannot be reached: connect to host there port 22: Connection refused"


def test_connection_that_hangs_is_given_up(module: ModuleType) -> None:
    action = Action()
    with pytest.raises(TargetError, match=r"there did not answer within 0\.1 s"):
        module.AnsibleTransport(action, "there").run(": hang", timeout=0.1)
    assert action._connection.resets == 1


def test_time_limit_passes_on_what_went_wrong(module: ModuleType) -> None:
    action = Action()
    action.failure = AnsibleConnectionFailure("gone")
    with pytest.raises(TargetError, match="there cannot be reached: gone"):
        module.AnsibleTransport(action, "there").run("true", timeout=5)


def test_files(module: ModuleType, tmp_path: Path) -> None:
    transport = module.AnsibleTransport(Action(), "there")
    (tmp_path / "a").write_text("text")
    transport.put(tmp_path / "a", str(tmp_path / "b"))
    transport.fetch(str(tmp_path / "b"), tmp_path / "c")
    assert (tmp_path / "c").read_text() == "text"


class Ssh(Connection):
    """As much of Ansible's ssh connection as says how it logs in."""

    transport = "ansible.builtin.ssh"

    def __init__(self, **options: Any) -> None:
        super().__init__(has_pipelining=True)
        self._options = options

    def get_option(self, name: str) -> Any:
        return self._options.get(name)


def remote_shell(module: ModuleType, connection: Connection) -> Any:
    action = Action()
    action._connection = connection
    return module.AnsibleTransport(action, "there").remote_shell()


def test_rsync_logs_in_as_the_connection_does(module: ModuleType) -> None:
    shell = remote_shell(
        module,
        Ssh(
            host="node",
            port=23,
            remote_user="me",
            private_key_file="/a b/key",
            ssh_executable="ssh",
            ssh_args="-C -o ControlPersist=60s",
            ssh_common_args="-o ProxyJump='gate'",
            ssh_extra_args=None,
            host_key_checking=False,
        ),
    )
    assert (shell.command[0], shell.host) == (shutil.which("ssh"), "node")
    assert shell.command[1:] == [
        *["-o", "BatchMode=yes", "-C", "-o", "ControlPersist=60s", "-p", "23", "-i", "/a b/key", "-l", "me"],
        *["-o", "ProxyJump=gate", "-T"],
    ]


@pytest.mark.parametrize(
    "connection",
    [
        Connection(has_pipelining=True),
        Ssh(host="node", password=secrets.token_hex()),
        Ssh(host="node", ssh_executable="/nowhere/ssh"),
        Ssh(host="-oProxyCommand=id"),
    ],
)
def test_rsync_has_no_way(module: ModuleType, connection: Connection) -> None:
    assert remote_shell(module, connection) is None


@pytest.mark.parametrize("path", ["/a\n!touch /tmp/oops\n/b", "/a\rb", "/a\x1b[2J", "/a\u2028b"])
def test_no_path_with_control_characters_reaches_a_copy(module: ModuleType, tmp_path: Path, path: str) -> None:
    """Ansible writes a batch of lines for sftp, and sftp runs a line that begins with '!' on the controller."""
    transport = module.AnsibleTransport(Action(), "there")
    with pytest.raises(TargetError, match="cannot be copied: its path holds control characters") as caught:
        transport.put(tmp_path / "a", path)
    assert "\n" not in str(caught.value)
    with pytest.raises(TargetError, match="cannot be copied: its path holds control characters"):
        transport.fetch(path, tmp_path / "b")
    with pytest.raises(TargetError, match="cannot be copied: its path holds control characters"):
        transport.fetch("/a", Path(path))


def test_a_temporary_folder_that_a_target_reports(module: ModuleType) -> None:
    action = Action(has_pipelining=False)
    action._low_level_execute_command = lambda command, **rest: {  # type: ignore[method-assign]
        "rc": 0, "stdout": "/tmp/x\n!touch /tmp/oops\n", "stderr": "",
    }  # fmt: skip
    with pytest.raises(TargetError, match="the target reports a temporary folder that is not supported"):
        module.AnsibleTransport(action, "there").run("cat", stdin=b"data")
