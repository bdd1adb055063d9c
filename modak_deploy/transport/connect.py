"""The transport to a target without Ansible: this machine, or SSH."""

import os
from contextlib import ExitStack
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.model.target import Target
from modak_deploy.paths import expanded
from modak_deploy.transport.base import Transport


def check_reachable(target: Target, what: str, *, source: str | Path = "", line: int | None = None) -> None:
    """Raise InputError for a target that no connection leads to; ``what`` is the command that needs one.

    An instance that is yet to be created, and Kubernetes, name no host: ``connect`` would lead to this machine.
    """
    if not target.is_asked:
        raise InputError(
            f"the type {target.type} of the target {target.name} is not supported by {what}",
            key="target.type",
            source=source,
            line=line,
            hint="describe this machine, or one or a cluster that ssh reaches",
        )


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
    return expanded(os.path.expandvars(text)) if text is not None else None
