"""The transport to a target without Ansible: this machine, or SSH."""

import os
from contextlib import ExitStack
from pathlib import Path

from modak_deploy.model.target import Target
from modak_deploy.transport.base import Transport


def connect(target: Target, config: Path | None, stack: ExitStack) -> Transport:
    """Return the transport to the target, which ``stack`` closes; ``config`` replaces the user's SSH configuration."""
    if target.host is None:
        from modak_deploy.transport.local import LocalTransport

        return LocalTransport()
    from modak_deploy.transport.ssh import transport_to

    transport = transport_to(
        target.host,
        user=target.user,
        port=target.port,
        config=config,
        private_key=_path(target.private_key),
        known_hosts=_path(target.known_hosts),
    )
    stack.callback(transport.close)
    return transport


def _path(text: str | None) -> Path | None:
    return Path(os.path.expandvars(text)).expanduser() if text is not None else None
