"""Hosts and queues of Grid Engine, from ``qhost -q -xml``, whose elements stand on lines of their own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from modak_deploy.model.target import Node, Partition
from modak_deploy.util.units import size_of

_HOST = re.compile(r"\s*<host name='([^']*)'>\s*")
_HOST_VALUE = re.compile(r"\s*<hostvalue name='(\w+)'>([^<]*)</hostvalue>\s*")
_QUEUE_VALUE = re.compile(r"\s*<queuevalue qname='([^']*)' name='(\w+)'>([^<]*)</queuevalue>\s*")
_OUT_OF_ORDER = set("adDEuCSs")
"""Letters of qstat(1) for a queue instance that takes no jobs: alarm, disabled, error, unknown, suspended."""


@dataclass
class _Host:
    name: str
    values: dict[str, str] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)


def parse_qhost(text: str) -> list[Partition]:
    """Return the queues with the hardware of their hosts; a queue's cores are the slots that most of its hosts have."""
    hosts = [host for host in _hosts(text) if host.name != "global"]
    names = dict.fromkeys(name for host in hosts for name in host.queues)
    return [_partition(name, [host for host in hosts if name in host.queues], only=len(names) == 1) for name in names]


def _partition(name: str, hosts: list[_Host], *, only: bool) -> Partition:
    working = [host for host in hosts if not set(host.queues[name].get("state_string", "")) & _OUT_OF_ORDER]
    slots = [count for host in hosts if (count := _integer(host.queues[name].get("slots", "")))]
    memory = [size for host in hosts if (size := size_of(host.values.get("mem_total", "")))]
    node = Node(
        cores=max(sorted(set(slots)), key=lambda count: (slots.count(count), count), default=None),
        memory=min(memory, default=None),
    )
    # Grid Engine has no default queue: a job that names none may run in any.
    return Partition(name=name, default=only, available=bool(working), nodes=len(hosts), node=node)


def _hosts(text: str) -> Iterator[_Host]:
    host: _Host | None = None
    for line in text.splitlines():
        if match := _HOST.fullmatch(line):
            host = _Host(match[1])
            yield host
        elif host is not None and (match := _HOST_VALUE.fullmatch(line)):
            host.values[match[1]] = match[2]
        elif host is not None and (match := _QUEUE_VALUE.fullmatch(line)):
            host.queues.setdefault(match[1], {})[match[2]] = match[3]


def _integer(text: str) -> int | None:
    return int(text) or None if re.fullmatch(r"[0-9]{1,9}", text.strip()) else None
