"""A second module that shares everything with the first but its weights."""

from typing import Any, Callable, Dict, Optional

from ... import hardware, structures
from . import sharing
from .objects import compares_itself, modules_of

RESERVE = 2.0
"""Free memory, in sizes of a copy, that must be there before one is made."""


def make(torch: Any, root: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a replica of a module with converted weights.

    As torch.nn.DataParallel does for its replicas (Module._replicate_for_data_parallel), the attributes are shared and
    the modules are new: attributes may be large, and cannot always be copied. A weight that is shared stays shared.
    """
    tensors: Dict[int, Any] = {}
    modules: Dict[int, Any] = {}

    def tensor(old: Any) -> Any:
        if old is None:
            return None
        if id(old) not in tensors:
            with torch.inference_mode(False), torch.no_grad():
                new = convert(old.detach())
                if isinstance(old, torch.nn.Parameter):
                    new = torch.nn.Parameter(new, requires_grad=False)
            tensors[id(old)] = new
        return tensors[id(old)]

    def module(old: Any) -> Any:
        if old is None:
            return None
        if id(old) not in modules:
            new = old.__new__(type(old))
            modules[id(old)] = new
            values = dict(old.__dict__)
            values["_parameters"] = {name: tensor(value) for name, value in old._parameters.items()}
            values["_buffers"] = {name: tensor(value) for name, value in old._buffers.items()}
            values["_modules"] = {name: module(value) for name, value in old._modules.items()}
            values["_compiled_call_impl"] = None
            new.__dict__.update(values)
        return modules[id(old)]

    try:
        return module(root)
    finally:  # a function that calls itself is freed by the collector alone, with what it refers to
        tensors.clear()
        modules.clear()


def refusal(torch: Any, root: Any) -> Optional[str]:
    """Return why a module cannot be replicated; None when it can."""
    special = (torch.jit.ScriptModule, torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    plain = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor))
    for module in modules_of(root):
        name = type(module).__name__
        if any(part.__module__.partition(".")[0] == "keras" for part in type(module).__mro__):
            return "it is or holds a layer of Keras, whose state is not all seen"
        if isinstance(module, special) or name in ("OptimizedModule", "FullyShardedDataParallel"):
            return "it is or holds a {}".format(name)
        if compares_itself(type(module)):
            return "it is or holds a {}, whose class says itself which of its objects are equal".format(name)
        for value in list(module._parameters.values()) + list(module._buffers.values()):
            if value is None:
                continue
            if type(value) not in plain or value.layout != torch.strided or value.is_quantized:
                return "it holds weights of the type {}".format(type(value).__name__)
            if value.device.type not in ("cpu", "cuda"):
                return "it holds weights on the device {}".format(value.device.type)
    return None


def check(torch: Any, root: Any) -> None:
    """Raise Unsupported or MemoryError where no copy of the weights can be made."""
    shared = sharing.refusal(torch, root)
    if shared is not None:
        raise structures.Unsupported(shared)
    reason = _room(torch, root)
    if reason is not None:
        raise MemoryError(reason)


def _room(torch: Any, root: Any) -> Optional[str]:
    """Return why there is no room for a copy of the weights; None when there is."""
    needed: Dict[str, int] = {}
    for value in list(root.parameters()) + list(root.buffers()):
        needed[value.device.type] = needed.get(value.device.type, 0) + value.numel() * value.element_size()
    for device, size in needed.items():
        free = torch.cuda.mem_get_info()[0] if device == "cuda" else hardware.free_memory()
        if free is not None and size * RESERVE > free:
            return "a copy of the weights takes {} MiB and {} MiB are free".format(size >> 20, free >> 20)
    return None
