"""Partitions as sinfo tells them, and GPUs as generic resources do."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from modak_deploy.model.target import Accelerator, Node, NodeKind, Partition
from modak_deploy.numbers import digits
from modak_deploy.schedulers.unlike import kinds_of
from modak_deploy.util.units import seconds_of

_MOST = 2**31 - 1
Vendor = Literal["nvidia", "amd", "intel"]
_MADE_BY: tuple[tuple[Vendor, str], ...] = (
    ("amd", r"^(amd|mi\d|gfx|vega|radeon|instinct|navi)"),
    ("intel", r"^(intel|pvc|xe|arc|max\d|ponte)"),
)
"""Names by which sites call GPUs in Slurm; all others are NVIDIA's."""


@dataclass(frozen=True)
class Group:
    """Nodes of one partition that are alike: one line of sinfo."""

    partition: str
    default: bool
    up: bool
    limit: int | None
    count: int
    state: str
    cores: int | None = None
    memory: int | None = None
    accelerators: Sequence[Accelerator] = ()
    features: Sequence[str] = field(default=())


def parse_sinfo(text: str, here: Collection[str] = (), host: Node | None = None) -> list[Partition]:
    """Return the partitions of ``sinfo --noheader --exact --format='%P|%a|%l|%D|%t|%c|%m|%G|%f'``.

    A partition of unlike nodes is given the cores of most of them, and the memory and GPUs of those that have most; see
    ``parse_kinds`` for what one node has.
    ``here`` names the partitions with a node on the very ``host`` that answered: they have its processor.
    """
    groups = _groups(text)
    return [_partition(name, members, host if name in here else None) for name, members in groups.items()]


def parse_kinds(text: str) -> dict[str, list[NodeKind]]:
    """Return the kinds of nodes in the same answer, by the names of partitions that have several."""
    kinds = {
        name: kinds_of(
            (Node(cores=m.cores, memory=m.memory, accelerators=list(m.accelerators)), m.count, _works(m))
            for m in members
        )
        for name, members in _groups(text).items()
    }
    return {name: several for name, several in kinds.items() if several}


def _groups(text: str) -> dict[str, list[Group]]:
    groups: dict[str, list[Group]] = {}
    for line in text.splitlines():
        if group := _group(line):
            groups.setdefault(group.partition, []).append(group)
    return groups


def _group(line: str) -> Group | None:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != 9 or not cells[0]:
        return None
    features = [] if cells[8] == "(null)" else cells[8].split(",")
    return Group(
        partition=cells[0].removesuffix("*"),
        default=cells[0].endswith("*"),
        up=cells[1] == "up",
        limit=(seconds_of(cells[2]) or None) if ":" in cells[2] else None,
        count=_number(cells[3]) or 0,
        state=cells[4],
        cores=_number(cells[5]),
        memory=(_number(cells[6]) or 0) * 1024**2 or None,
        accelerators=parse_gres(cells[7]),
        features=features,
    )


def _number(text: str) -> int | None:
    matches = re.match(r"[0-9]+", text)
    return digits(matches[0], 2**40) or None if matches else None


def _partition(name: str, groups: Sequence[Group], host: Node | None) -> Partition:
    most = max(groups, key=lambda group: (_works(group), group.count, group.cores or 0))
    richest = max(groups, key=lambda group: sum(accelerator.count for accelerator in group.accelerators))
    node = Node(
        cores=most.cores,
        memory=max((group.memory for group in groups if group.memory), default=None),
        microarchitecture=_named(most.features),
        accelerators=list(richest.accelerators),
    )
    if host is not None:
        processor = {
            key: getattr(host, key) for key in ("microarchitecture", "cpu_model", "cpu_features", "threads_per_core")
        }
        node = node.model_copy(update=processor)
    return Partition(
        name=name,
        default=groups[0].default,
        available=groups[0].up,
        nodes=sum(group.count for group in groups),
        maximum_wall_time=groups[0].limit,
        node=node,
    )


def _works(group: Group) -> bool:
    return not re.match(r"down|drain|drng|fail|maint|unk|inval|fut|no_resp", group.state) and "*" not in group.state


def _named(features: Sequence[str]) -> str | None:
    """Return the microarchitecture among a node's features, where the site names it as archspec does."""
    from archspec.cpu import TARGETS

    names = [feature.lower().replace("-", "_") for feature in features]
    return max((name for name in names if name in TARGETS), key=lambda name: len(TARGETS[name].ancestors), default=None)


def parse_gres(text: str) -> list[Accelerator]:
    """Return the GPUs of a node in Slurm's words, such as ``gpu:a100:4(S:0-1),mps:400``; ``gpu`` where untyped."""
    matches: Counter[str] = Counter()
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        fields = item.strip().split(":")
        if fields[0] == "gpu" and (count := digits(fields[-1], _MOST)) is not None:
            matches[fields[1] if len(fields) > 2 else "gpu"] += count
    return [
        Accelerator(model=model, count=count, vendor=vendor_of(model)) for model, count in matches.items() if count > 0
    ]


def vendor_of(model: str) -> Vendor:
    """Return who makes the GPU that a site calls ``model``."""
    return next((vendor for vendor, pattern in _MADE_BY if re.search(pattern, model.lower())), "nvidia")
