"""What OpenSSH's client says when it cannot connect, as messages with a hint.

The texts are those of OpenSSH 6.8 to 9.9 (sshconnect.c, sshconnect2.c, ssh.c, readconf.c, packet.c); ssh is not
translated, and sets no LC_MESSAGES, so that the texts of the C library are English too.
"""

import re
from collections.abc import Sequence

from modak_deploy.errors import InputError, ModakError, TargetError
from modak_deploy.terminal import excerpt

# The first that matches decides: a jump host's own message comes before "Connection closed by UNKNOWN port 65535".
_MESSAGES: Sequence[tuple[str, str]] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "{host} shows another host key than the one in known_hosts{offending}: make sure that it is the right machine "
        "before you replace the key",
    ),
    (
        r"No .* host key is known for|Host key verification failed",
        "the host key of {host} is not in known_hosts: log in once with ssh to check and accept it ({line})",
    ),
    (
        r"UNPROTECTED PRIVATE KEY FILE",
        "{host} cannot be reached: the private key may be read by others and is ignored; set its mode to 600",
    ),
    (
        r"Too many authentication failures",
        "{host} cannot be reached: too many keys were offered; set IdentityFile and IdentitiesOnly for it",
    ),
    (
        r"Permission denied \(",
        "{host} accepts none of the keys offered: check user, IdentityFile and agent; a key with a passphrase must be "
        "in the agent where there is no terminal (ssh-add) ({line})",
    ),
    (
        r"Could not resolve hostname",
        "{host} cannot be reached: its name was not found; check the name and the SSH configuration ({line})",
    ),
    (r"timed out|Timeout, server|not responding", "{host} cannot be reached: no answer in time ({line})"),
    (r"Unable to negotiate|no matching .* found", "{host} cannot be reached: no common algorithm ({line})"),
    (
        r"Session open refused|open failed: administratively prohibited|mux_client_request_session",
        "{host} refuses another session over the open connection; check MaxSessions of its sshd ({line})",
    ),
)
_CONFIGURATION = (
    r"Bad configuration option|terminating, \d+ bad configuration|Bad owner or permissions on|keyword .* argument"
)


def connection_error(host: str, said: str, *, default: str = "the connection was closed") -> ModakError:
    """Return the error for what ssh wrote to its standard error; InputError for a configuration that is not valid."""
    lines = [line.strip() for line in said.splitlines() if line.strip(" @\r")]
    if bad := next((line for line in lines if re.search(_CONFIGURATION, line)), None):
        return InputError(f"the SSH configuration is not valid: {excerpt(bad)}")
    for pattern, message in _MESSAGES:
        line = next((line for line in lines if re.search(pattern, line)), None)
        if line is not None:
            return TargetError(message.format(host=host, line=excerpt(line), offending=_offending(lines)))
    return TargetError(f"{host} cannot be reached: {excerpt(_telling(lines)) or default}")


def _telling(lines: Sequence[str]) -> str:
    """Return the line that names the reason: not that of a proxy's closed pipe, which follows it."""
    plain = [line for line in lines if "UNKNOWN port" not in line]
    line = next((line for line in plain if re.search(r"^(ssh|kex|banner|channel|stdio)", line)), "")
    line = (line or next(iter(plain), "") or next(iter(lines), "")).removeprefix("ssh:").strip()
    return re.sub(r"^connect to host \S+ port \d+: ", "", line)


def _offending(lines: Sequence[str]) -> str:
    match = next((match for line in lines if (match := re.match(r"Offending .* key in (.*):(\d+)$", line))), None)
    return f" ({excerpt(match[1])}, line {match[2]})" if match else ""
