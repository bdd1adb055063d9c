"""The proxy before the replicas: HAProxy with a configuration of its own, as the user who owns the service.

HAProxy was chosen for its reload without a lost connection, its checks of the servers behind it, and because every
distribution has it. It is told what to do by its configuration and a signal alone: a client of its socket is on few
hosts.
"""

import re
from importlib.resources import files

from modak_deploy.jobs.script import fill
from modak_deploy.model.service import Service
from modak_deploy.services.record import FrontRecord, ServiceRecord

_LONGEST_SOCKET = 90
"""Characters: the path of a socket has 107 (unix(7)), and HAProxy 2.6 binds it under a longer name first."""


def configuration(record: ServiceRecord, front: FrontRecord, service: Service, directory: str) -> str:
    """Return HAProxy's configuration that leads clients to the serving replicas; ``directory`` is the service's."""
    socket = f"{directory}/front/admin.sock"
    usable = len(socket.encode()) <= _LONGEST_SOCKET and re.fullmatch(r"[A-Za-z0-9._/@+-]+", socket)
    template = files(__package__).joinpath("data", "haproxy.cfg.j2").read_text(encoding="utf-8")
    return fill(
        template,
        {
            "name": record.name,
            "socket": socket if usable else "",
            "path": service.health if service.is_http else "",
            "drain": service.drain,
            "timeout": service.timeout,
            "address": front.address,
            "port": front.port,
            "replicas": [(replica.id, replica.port) for replica in record.of("serving")],
        },
    )


def probed(address: str) -> str:
    """Return the address at which the host itself reaches what listens on ``address``."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
