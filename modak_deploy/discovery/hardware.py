"""The hardware of the host that answered: /proc, lscpu, control groups."""

from collections.abc import Sequence

from modak_deploy.discovery.accelerators import parse_nvidia, parse_rocm
from modak_deploy.discovery.microarchitecture import features_of, microarchitecture
from modak_deploy.discovery.probe import Answer
from modak_deploy.model.target import Accelerator, Node
from modak_deploy.numbers import digits

_MOST_CORES, _MOST_KIB = 2**24, 2**50
_MOST_CPUS, _MOST_SIBLINGS = 2**16, 64


def parse_node(answer: Answer) -> Node:
    """Return what is known of the host's hardware."""
    cpuinfo = parse_colons(answer["cpuinfo"])
    lscpu = parse_colons(answer["lscpu"])
    features = features_of(cpuinfo) or set(lscpu.get("Flags", "").split())
    reported = cpuinfo or {"vendor_id": lscpu.get("Vendor ID", "generic"), "flags": " ".join(features)}
    machine = answer.line("machine")
    cores, memory = parse_limits(answer["limits"])
    return Node(
        cores=_least([parse_cores(answer), cores]),
        threads_per_core=_threads_per_core(cpuinfo, lscpu),
        memory=_least([parse_memory(answer["meminfo"]), memory]),
        microarchitecture=microarchitecture(machine, reported) if machine and features_or_power(reported) else None,
        cpu_model=_model(cpuinfo, lscpu),
        cpu_features=sorted(features),
        accelerators=parse_accelerators(answer),
    )


def of_session(node: Node, answer: Answer) -> Node:
    """Return the node as the session that answered can use it: threads per core are those of its own cores.

    A session may be given one of the two hardware threads of each core, or the time of fewer cores than it may run on;
    on a hybrid processor only some cores have two. None where the cores that it has do not share evenly.
    """
    physical = _physical_cores(answer)
    if node.cores is None or physical is None:
        return node
    shared, rest = divmod(node.cores, min(node.cores, physical))
    return node.model_copy(update={"threads_per_core": None if rest else shared})


def _physical_cores(answer: Answer) -> int | None:
    """Return how many physical cores the session may run on; None where it is not known which cores share one."""
    siblings = {_numbers(line, _MOST_SIBLINGS) for line in answer["siblings"].splitlines() if line.strip()}
    allowed = _numbers(answer.line("allowed") or "", _MOST_CPUS)
    if not siblings or frozenset() in siblings:
        return None
    return sum(not allowed or bool(group & allowed) for group in siblings) or None


def _numbers(text: str, most: int) -> frozenset[int]:
    """Return the numbers in a list of the kernel's, such as ``0-3,8``; none where it is none, or longer."""
    numbers: set[int] = set()
    left = most
    for item in text.strip().split(","):
        low, dash, high = item.partition("-")
        first, last = digits(low, _MOST_CPUS), digits(high if dash else low, _MOST_CPUS)
        if first is None or last is None or not 0 <= last - first < left:
            return frozenset()
        left -= last - first + 1
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def parse_accelerators(answer: Answer) -> list[Accelerator]:
    """Return the host's GPUs of all makers."""
    return parse_nvidia(answer["nvidia-smi"], answer["nvidia-list"]) + parse_rocm(answer["rocm-smi"])


def parse_colons(text: str) -> dict[str, str]:
    """Return the pairs of lines such as ``Model name:   AMD EPYC``; the first of a key counts."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def features_or_power(cpuinfo: dict[str, str]) -> bool:
    """Tell whether there is anything that the processor can be recognised by."""
    return bool(features_of(cpuinfo)) or "cpu" in cpuinfo or "uarch" in cpuinfo


def parse_cores(answer: Answer) -> int | None:
    """Return the cores that this session may use: nproc's, else all that are online."""
    for name in ("nproc", "online"):
        if cores := digits(answer.line(name) or "", _MOST_CORES):
            return cores
    return None


def _threads_per_core(cpuinfo: dict[str, str], lscpu: dict[str, str]) -> int | None:
    """Return how many cores share a physical one: lscpu's word, else /proc/cpuinfo's of one socket (x86)."""
    if count := digits(lscpu.get("Thread(s) per core", ""), _MOST_CORES):
        return count
    siblings, cores = (digits(cpuinfo.get(key, ""), _MOST_CORES) for key in ("siblings", "cpu cores"))
    return max(1, siblings // cores) if siblings and cores else None


def parse_memory(meminfo: str) -> int | None:
    """Return the bytes of main memory, MemTotal of /proc/meminfo."""
    fields = parse_colons(meminfo).get("MemTotal", "").split()
    kibibytes = digits(fields[0], _MOST_KIB) if len(fields) == 2 and fields[1] == "kB" else None
    return None if kibibytes is None else kibibytes * 1024


def parse_limits(text: str) -> tuple[int | None, int | None]:
    """Return the cores and the bytes that the control groups leave, each None without a limit.

    Lines are a file's name and its content, of version 1 or 2 of control groups. A limit of parts of a core counts as
    the next whole one.
    """
    cores: list[int | None] = []
    memory: list[int | None] = []
    quota = 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        numbers = [number for value in rest.split() if (number := digits(value)) is not None]
        if name == "cpu.max" and len(numbers) == 2 and numbers[1]:
            cores.append(-(-numbers[0] // numbers[1]))
        elif name == "cpu.cfs_quota_us":
            quota = numbers[0] if numbers else 0  # -1 is no limit
        elif name == "cpu.cfs_period_us" and numbers and numbers[0] and quota:
            cores.append(-(-quota // numbers[0]))
        elif name in ("memory.max", "memory.limit_in_bytes") and numbers and 0 < numbers[0] < 2**60:
            memory.append(numbers[0])
    return _least(cores), _least(memory)


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value), default=None)


def _model(cpuinfo: dict[str, str], lscpu: dict[str, str]) -> str | None:
    for text in (cpuinfo.get("model name"), lscpu.get("Model name"), cpuinfo.get("cpu")):
        if text and text != "-":
            return text
    return None
