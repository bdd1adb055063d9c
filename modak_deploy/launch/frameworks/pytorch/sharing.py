"""Memory of weights that is reached in other ways than by the weights: by other tensors, and by other processes.

The version counter of a weight counts what is written through it and its views. After ``weight.data = another[:9]`` it
has the memory of a tensor with a counter of its own, as where all weights are parts of a flat one. What another process
writes to shared memory no counter shows.
"""

import bisect
import gc
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ...files import open_file
from . import outputs

SHARED = "the weights are in memory that other processes may write to"
MAPS = "/proc/self/maps"
"""Where Linux tells of which kind a process's memory is."""
FAKE = "torch._subclasses.fake_tensor"
"""Has tensors without memory, which the compiler leaves behind: PyTorch warns where they are asked for it (2.13)."""


def others(torch: Any, tensors: List[Any]) -> List[Any]:
    """Return the tensors that have memory in common with the given ones, which are not returned.

    The collector knows all objects; it is asked only where a storage has more users than those given, or comes from
    elsewhere, as from a file or an array of NumPy's: that takes 0.05 s with PyTorch alone.
    """
    if not _has_others(torch, tensors):
        return []
    areas = _merged(filter(None, (_area(torch, tensor) for tensor in tensors)))
    starts, ids = [start for start, _ in areas], set(map(id, tensors))
    shared = []
    with torch._C.DisableTorchFunctionSubclass():  # a class of the program's may count what is done with its tensors
        for value in gc.get_objects():
            # The class is asked by ``type``: a proxy would answer isinstance for another object.
            if not issubclass(type(value), torch.Tensor) or id(value) in ids:
                continue
            area = _area(torch, value)
            if area is not None:
                last = bisect.bisect_left(starts, area[1]) - 1
                if last >= 0 and areas[last][1] > area[0]:
                    shared.append(value)
    return shared


def _has_others(torch: Any, tensors: List[Any]) -> bool:
    """Tell whether there may be such tensors."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        return True
    own = torch.zeros(1, device="cpu").untyped_storage()
    usual = count(own._cdata)  # of a storage that no tensor has any more, as Python asks for it
    storages: Dict[int, List[Any]] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        users = storages.setdefault(storage._cdata, [storage, usual])
        users[1] += 1
    return any(_is_foreign(storage) or count(storage._cdata) > users for storage, users in storages.values())


def _is_foreign(storage: Any) -> bool:
    """Tell whether memory may come from elsewhere than PyTorch's allocators; early storages do not say."""
    return not hasattr(storage, "resizable") or not storage.resizable()


def _area(torch: Any, tensor: Any) -> Optional[Tuple[int, int]]:
    """Return where the memory of a tensor begins and ends; None where it has none, or none that is seen."""
    try:
        if type(tensor).__module__ == FAKE or tensor.layout != torch.strided or not tensor.numel():
            return None
        start = torch.Tensor.data_ptr(tensor)
        return (
            (start, start + outputs.extent((tensor.shape, tensor.stride())) * tensor.element_size()) if start else None
        )
    except Exception:  # of tensors that stand for others, as while a module is exported
        return None


def _merged(areas: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Return areas in their order, those that overlap as one."""
    merged: List[Tuple[int, int]] = []
    for start, end in sorted(areas):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def refusal(torch: Any, root: Any) -> Optional[str]:
    """Return why no copies are made of a module's weights, which other processes may change; None where they cannot."""
    weights = [tensor for tensor in (*root.parameters(), *root.buffers()) if tensor.device.type == "cpu"]
    # Memory that PyTorch has allocated for itself alone is neither; that is quick to see.
    foreign = [tensor for tensor in weights if tensor.is_shared() or _is_foreign(tensor.untyped_storage())]
    if not foreign:
        return None
    try:
        areas = _merged(_written_together())
    except (OSError, ValueError):  # another system than Linux: files that are mapped count as well
        return SHARED if any(tensor.is_shared() for tensor in foreign) else None
    starts = [start for start, _ in areas]
    for tensor in foreign:
        last = bisect.bisect_right(starts, tensor.data_ptr()) - 1
        if last >= 0 and areas[last][1] > tensor.data_ptr():
            return SHARED
    return None


def _written_together() -> Iterator[Tuple[int, int]]:
    """Yield the memory of this process that it may write to and that is shared (proc_pid_maps(5)).

    That of a file which a process maps for itself alone, as ``torch.load(mmap=True)`` and safetensors do, is not.
    """
    with open_file(MAPS, encoding="utf-8", errors="replace") as file:
        for line in file:
            area, access = line.split()[:2]
            if access[1] == "w" and access[3] == "s":
                start, end = (int(address, 16) for address in area.split("-"))
                yield start, end
