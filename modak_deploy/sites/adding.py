"""A site from what its login node reports."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from modak_deploy.documents import check
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.target import Facts, Target
from modak_deploy.transport.connect import connect
from modak_deploy.transport.ssh_config import split

_LOGIN = re.compile(r"(login|ssh|uan|ela|front(end)?|head|cluster|hpc)\d*", re.IGNORECASE)
"""First labels of login nodes' names, which say nothing of the site."""


def address_of(host: str | None, name: str | None) -> Target:
    """Return ``[user@]host[:port]`` as a target; this machine where there is no host."""
    address: dict[str, Any] = {}
    if host is not None:
        hostname, user, port = split(host)
        address = {"host": hostname, "user": user, "port": int(port) if port and port.isdecimal() else port}
    usual = _name(str(address.get("host") or "localhost"))
    return check(Target, {"name": name or usual, **address}, origin="modak site add")


def ask_target(
    address: Target, described: Target | None, config: Path | None, *, runtimes: Sequence[RuntimeName] = ()
) -> Facts:
    """Return what the target at ``address`` reports; of a described one the ``runtimes`` besides its own as well."""
    from modak_deploy.discovery import parse_probe, probe_script
    from modak_deploy.discovery.asking import ask

    with ExitStack() as stack:
        transport = connect(address, config, stack)
        script = probe_script(described, runtimes=runtimes)
        return parse_probe(ask(transport, script, address.host or "this machine"), described)


def settings_of(facts: Facts, address: Target, *, minimal: bool) -> dict[str, Any]:
    """Return the settings of a site; a ``minimal`` one leaves to discovery what may change."""
    from modak_deploy.discovery import target_of
    from modak_deploy.discovery.describe import section

    target = {key: value for key, value in section(target_of(facts, address)).items() if key != "name"}
    if minimal:
        return {"target": {key: value for key, value in target.items() if key not in ("partitions", "node")}}
    software = {
        "runtimes": dict(facts.runtimes),
        "mpi": [library.model_dump(mode="json", exclude_none=True) for library in facts.mpi],
    }
    present = {key: value for key, value in software.items() if value}
    return {"target": target, **({"software": present} if present else {})}


def _name(host: str) -> str:
    """Return a short name for the site of a host: lumi for lumi.csc.fi, leonardo for login.leonardo.cineca.it."""
    text = re.sub(r"[^A-Za-z0-9_.-]", "-", host)
    labels = text.split(".")
    if not text[:1].isalpha():
        return f"site-{text}"[:63]
    if len(labels) > 2 and _LOGIN.fullmatch(labels[0]) and labels[1][:1].isalpha():
        return labels[1][:63]
    return labels[0][:63]
