"""A target reached over SSH where this machine lacks OpenSSH's client, by paramiko.

``~/.ssh/config`` is honoured (HostName, User, Port, IdentityFile, IdentitiesOnly, ProxyJump, ProxyCommand,
UserKnownHostsFile, GlobalKnownHostsFile, HostKeyAlias, ConnectTimeout), keys come from it, from the agent and from
``~/.ssh``. A host whose key is not known is refused, whatever the configuration says.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_deploy.errors import InputError, TargetError
from modak_deploy.shell import enclose
from modak_deploy.transport.base import Completed, check_paths
from modak_deploy.transport.local import decode
from modak_deploy.transport.process import MAX_STDERR, MAX_STDOUT
from modak_deploy.transport.ssh_config import Hop, route

if TYPE_CHECKING:
    import paramiko

KEEP_ALIVE = 15
"""Seconds between signs of life, so that a dead connection is noticed."""
_CHANNEL_TIMEOUT = 20.0


class ParamikoTransport:
    """Runs commands on ``[user@]host[:port]``, where ``host`` may be an alias of the SSH configuration.

    The connection is made at the first use and made anew after it broke. Close it, or use it in a ``with``.
    """

    concurrent = True
    """Whether two threads may run commands at once: each has a channel of its own."""

    def __init__(
        self,
        host: str,
        *,
        user: str | None = None,
        port: int | None = None,
        config: Path | None = None,
        private_key: Path | None = None,
        known_hosts: Path | None = None,
    ) -> None:
        """Take what stands over the SSH configuration for this host; ``private_key`` is then the only key offered."""
        self._destination = host
        self._user = user
        self._port = port
        self._config = config
        self._private_key = private_key
        self._known_hosts = known_hosts
        self._clients: list[paramiko.SSHClient] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "ParamikoTransport":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        for client in reversed(self._clients):
            client.close()
        self._clients = []

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        """See ``Transport.run``."""
        with self._guarded():
            channel = self._open_channel()
            try:
                with _limited(channel, timeout):
                    channel.exec_command(enclose(command))
                    return _exchange(channel, stdin)
            except TimeoutError:
                raise TargetError(f"{self._destination} did not answer within {timeout:g} s") from None
            finally:
                channel.close()

    def put(self, local: Path, remote: str) -> None:
        """See ``Transport.put``."""
        check_paths(local, remote)
        with self._guarded(), self._connected().open_sftp() as sftp:
            try:
                sftp.put(str(local), remote)
            except OSError as error:
                raise TargetError(f"{local} cannot be copied to {self._destination}:{remote}: {error}") from None

    def fetch(self, remote: str, local: Path) -> None:
        """See ``Transport.fetch``."""
        check_paths(remote, local)
        with self._guarded(), self._connected().open_sftp() as sftp:
            try:
                sftp.get(remote, str(local))
            except OSError as error:
                raise TargetError(f"{self._destination}:{remote} cannot be copied to {local}: {error}") from None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn every way in which SSH fails into one sentence, and forget the broken connection."""
        import paramiko

        try:
            yield
        except (TargetError, InputError):
            raise
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.close()
            raise TargetError(_sentence(self._destination, error)) from None

    def _open_channel(self) -> "paramiko.Channel":
        transport = self._connected().get_transport()
        if transport is None:
            raise EOFError("the connection was closed")
        return transport.open_session(timeout=_CHANNEL_TIMEOUT)

    def _connected(self) -> "paramiko.SSHClient":
        with self._lock:
            if self._clients:
                transport = self._clients[-1].get_transport()
                if transport is not None and transport.is_active():
                    return self._clients[-1]
                self.close()
            self._connect()
            return self._clients[-1]

    def _connect(self) -> None:
        path: Any = None
        hops = route(self._destination, self._user, self._port, self._config)
        for hop in [*hops[:-1], self._message(hops[-1])]:
            try:
                client = _connect_to(hop, path)
            except Exception as error:
                self.close()
                if isinstance(error, TargetError | InputError):
                    raise
                raise TargetError(_sentence(hop.alias, error, hop)) from None
            self._clients.append(client)
            path = client

    def _message(self, hop: Hop) -> Hop:
        """Return the last hop with the key and the known hosts that were given."""
        if self._private_key is not None:
            if not self._private_key.is_file():
                raise InputError(f"the private key {self._private_key} for {self._destination} is not a file")
            hop = replace(hop, keys=[str(self._private_key)], only_these_keys=True)
        if self._known_hosts is not None:
            if not self._known_hosts.is_file():
                raise InputError(f"the known hosts {self._known_hosts} for {self._destination} are not a file")
            hop = replace(hop, known_hosts=[self._known_hosts])
        return hop


def _connect_to(hop: Hop, before: "paramiko.SSHClient | None") -> "paramiko.SSHClient":
    import paramiko

    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for file in hop.known_hosts:
        if file.is_file():
            client.load_system_host_keys(str(file))
    path = _way_to(hop, before)
    keys: Any = hop.keys  # The type stubs know one file only.
    try:
        client.connect(
            hop.key_name,
            # An alias stands for itself, without a port.
            port=hop.port if hop.key_name == hop.host else 22,
            username=hop.user,
            key_filename=keys,
            allow_agent=not hop.only_these_keys,
            look_for_keys=not hop.only_these_keys,
            timeout=hop.timeout,
            banner_timeout=hop.timeout,
            auth_timeout=hop.timeout,
            sock=path,
        )
    except BaseException:
        client.close()
        path.close()
        raise
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(KEEP_ALIVE)
    return client


def _way_to(hop: Hop, before: "paramiko.SSHClient | None") -> Any:
    """Return the open socket, or what stands for one, to the host's SSH port."""
    import paramiko

    if before is not None and (transport := before.get_transport()) is not None:
        return transport.open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=hop.timeout)
    if hop.proxy_command:
        return paramiko.ProxyCommand(hop.proxy_command)
    return socket.create_connection((hop.host, hop.port), timeout=hop.timeout)


@contextmanager
def _limited(channel: "paramiko.Channel", timeout: float | None) -> Iterator[None]:
    """Close the channel after ``timeout`` seconds, which ends all waiting for it, and raise TimeoutError.

    Of paramiko's own waiting only that for output has a limit: not that for the start of a command or its exit code.
    """
    passed = threading.Event()

    def end() -> None:
        passed.set()
        channel.close()

    timer = threading.Timer(timeout or 0.0, end)
    timer.daemon = True
    if timeout is not None:
        timer.start()
    try:
        yield
    except Exception:
        if passed.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


def _exchange(channel: "paramiko.Channel", stdin: bytes | None) -> Completed:
    """Send ``stdin`` and read both outputs at once, so that neither side waits for the other for ever."""
    errors: list[bytes] = []

    def send() -> None:
        with suppress(OSError):  # The command may end without reading all of it: its exit code tells the rest.
            if stdin:
                channel.sendall(stdin)
            channel.shutdown_write()

    def read_errors() -> None:
        with suppress(OSError):
            size = 0
            while block := channel.recv_stderr(65536):
                size += len(block)
                if size > MAX_STDERR:
                    channel.close()
                    return
                errors.append(block)

    threads = [threading.Thread(target=work, daemon=True) for work in (send, read_errors)]
    for thread in threads:
        thread.start()
    blocks: list[bytes] = []
    read = 0
    while block := channel.recv(65536):
        read += len(block)
        if read > MAX_STDOUT:
            channel.close()
            raise TargetError(
                f"more than {MAX_STDOUT // 1024**2} MiB came by standard output, and the rest was not read"
            )
        blocks.append(block)
    for thread in threads:
        thread.join()
    code = channel.recv_exit_status()
    if code < 0:
        raise EOFError("the connection was lost while the command ran")
    return Completed(code, decode(b"".join(blocks)), decode(b"".join(errors)))


def _sentence(name: str, error: BaseException, hop: Hop | None = None) -> str:
    import paramiko

    destination = f"{name} ({hop.user}@{hop.host} port {hop.port})" if hop else name
    match error:
        case paramiko.BadHostKeyException():
            return (
                f"{destination} shows another host key than the one in known_hosts: "
                "make sure that it is the right machine before you replace the key"
            )
        case paramiko.PasswordRequiredException():
            return f"the key for {destination} has a passphrase: load it into an agent with ssh-add"
        case paramiko.AuthenticationException():
            return f"{destination} accepts none of the keys offered: check user, IdentityFile and agent"
        case socket.gaierror():
            return f"{destination} cannot be reached: its name is not known"
        case TimeoutError():
            return f"{destination} cannot be reached: no answer in time"
        case paramiko.SSHException() if "not found in known_hosts" in str(error):
            return f"the host key of {destination} is not in known_hosts: log in once with ssh to check and accept it"
        case OSError() if error.strerror:
            return f"{destination} cannot be reached: {error.strerror}"
        case _:
            return f"{destination} cannot be reached: {str(error) or type(error).__name__}"
