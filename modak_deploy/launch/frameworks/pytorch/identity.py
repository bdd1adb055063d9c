"""What a conversion of a module is made of, as digests: the module's structure, the program's code, and the weights."""

import collections
import enum
import functools
import hashlib
import os
import sys
import sysconfig
import types
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ... import structures
from ...files import open_file
from .arrays import array_of
from .contents import Contents
from .outside import Outside
from .watch import EACH_CALL

FORMAT = "4"
"""Of this description; another one makes all that was kept before unknown."""
DEEPEST = 12
MOST_VALUES = 50_000
"""Values that are looked at: what a module holds beyond that takes longer than it is worth."""
MOST_CODE = 16 << 20
"""Bytes of the program's own files."""
_TABLES = ("_parameters", "_buffers", "_modules")
_PASSED_OVER = ("_compiled_call_impl", "_non_persistent_buffers_set", "_is_full_backward_hook", *_TABLES)
"""Attributes of a module that are looked at otherwise, or are no matter."""
_CONTAINERS = (dict, list, tuple, collections.deque, collections.OrderedDict, collections.defaultdict)
_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class that a class statement makes."""
_NAMED = ("torch.dtype", "torch.device", "torch.Size", "torch.memory_format", "torch.layout")


class Identity:
    """The digests of one module, as it is when they are asked for the first time."""

    def __init__(self, torch: Any, module: Any, program: str) -> None:
        """``program`` is what ``program_digest`` returned."""
        self._torch = torch
        self._reference = weakref.ref(module)
        self._program = program
        self._outline: Optional[str] = None
        self._weights: Optional[str] = None

    @property
    def _module(self) -> Any:
        """Return the module, which is not kept alive."""
        module = self._reference()
        if module is None:
            raise structures.Unsupported("the module is gone")
        return module

    @property
    def outline(self) -> str:
        """Return a digest of all but the weights' values; Unsupported where the module cannot be looked into."""
        if self._outline is None:
            described = _Description(self._torch)
            described.add(FORMAT, str(self._torch.__version__), sys.version, repr(self._torch.get_default_dtype()))
            described.add(self._program)
            described.module(self._module)
            described.outside(self._module)
            self._outline = described.digest()
        return self._outline

    @property
    def weights(self) -> str:
        """Return a digest of the values of all weights and buffers."""
        if self._weights is None:
            content = hashlib.sha256()
            for tensor in {id(tensor): tensor for _, tensor in _tensors(self._module)}.values():
                _add_values(self._torch, content, tensor)
            self._weights = content.hexdigest()
        return self._weights

    def name(self, kind: Tuple[str, ...], form: Any) -> str:
        """Return what names a conversion for one form of call: a part that is known at once, and one of the weights."""
        return "{}-{}".format(self.prefix(kind, form), self.weights[:40])

    def prefix(self, kind: Tuple[str, ...], form: Any) -> str:
        """Return the first part of the name, for which no weight is read."""
        return hashlib.sha256(repr((self.outline, kind, form)).encode("utf-8", "replace")).hexdigest()[:32]


class _Description:
    """A digest of values that grows: each is written with its type and length, so that no two read alike."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._hash = hashlib.sha256()
        self._numbers: Dict[int, int] = {}
        self._alive: List[Any] = []
        self._usual = frozenset(torch.nn.Module().__dict__)
        self._count = 0

    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, *texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:" % len(data))
            self._hash.update(data)

    def module(self, root: Any, values: bool = False) -> None:
        """Add a module: its classes, their code, its attributes, and the kinds of its weights, or their ``values``."""
        for name, module in root.named_modules(remove_duplicate=False):
            self.add("module", name)
            if not self._is_new(module):
                continue
            self.add("training" if module.training else "evaluation")
            self._class(type(module))
            for key, value in sorted(module.__dict__.items()):
                if key not in _PASSED_OVER and not (key in self._usual and not value):
                    self.add("attribute", key)
                    self._value(value, 0)
        for name, tensor in _tensors(root):
            self.add("tensor", name, repr((tensor.dtype, tuple(tensor.shape), tensor.device)))
            if self._is_new(tensor) and values:
                _add_values(self._torch, self._hash, tensor)

    def outside(self, root: Any) -> None:
        """Add what the module's code names outside of it: numbers and texts, as of options, and tensors."""
        bound = Outside(list(root.modules())).values()
        contents = Contents(self._torch, bound, EACH_CALL)
        for value in (*bound, *contents.objects()):
            if type(value) in structures.PLAIN:
                self.add(type(value).__name__, repr(value))
        for tensor in contents.tensors:
            if self._is_new(tensor) and tensor.layout == self._torch.strided:
                self._content(tensor, 0)

    def _is_new(self, value: Any) -> bool:
        """Number a value; False for one that was added before, of which the number is."""
        number = self._numbers.get(id(value))
        if number is not None:
            self.add("again", str(number))
            return False
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)  # another one may not get its address
        return True

    def _value(self, value: Any, depth: int) -> None:
        self._count += 1
        if depth > DEEPEST or self._count > MOST_VALUES:
            raise structures.Unsupported("the module holds too much")
        kind = type(value)
        self.add(kind.__module__, kind.__qualname__)
        if kind in structures.PLAIN or "{}.{}".format(kind.__module__, kind.__name__) in _NAMED:
            self.add(repr(value))
        elif isinstance(value, enum.Enum):
            self.add(value.name)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self.add(value.__name__, str(getattr(value, "__version__", "")))
        elif isinstance(value, self._torch.nn.Module):
            self.module(value, values=True)  # of a list, for example: the weights are not among the outer module's
        elif self._is_new(value):
            self._content(value, depth)

    def _content(self, value: Any, depth: int) -> None:
        if isinstance(value, self._torch.Tensor):
            self.add(repr((value.dtype, tuple(value.shape), value.device)))
            _add_values(self._torch, self._hash, value)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._callable(value, depth)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            self.add(value.__qualname__)
        else:
            self._items(value, depth)

    def _items(self, value: Any, depth: int) -> None:
        if isinstance(value, (set, frozenset)):
            for text in sorted(map(repr, value)):  # one with an address is another one with each run
                self.add(text)
            return
        if (not isinstance(value, _CONTAINERS) and not hasattr(value, "__dict__")) or not _is_open(type(value)):
            kind = type(value)
            text = "it holds a value of the type {}.{}, which cannot be seen"
            raise structures.Unsupported(text.format(kind.__module__, kind.__qualname__))
        if isinstance(value, dict):
            for key, item in value.items():
                self._value(key, depth + 1)
                self._value(item, depth + 1)
        elif isinstance(value, _CONTAINERS):
            for item in value:
                self._value(item, depth + 1)
        for key, item in sorted(getattr(value, "__dict__", {}).items()):
            self.add(str(key))
            self._value(item, depth + 1)

    def _callable(self, value: Any, depth: int) -> None:
        if isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._value(part, depth + 1)
        elif isinstance(value, types.MethodType):
            self._value(value.__func__, depth + 1)
            self._value(value.__self__, depth + 1)
        else:
            self.add(value.__module__ or "", value.__qualname__)
            self._code(value.__code__)
            for part in (value.__defaults__, value.__kwdefaults__):
                self._value(part, depth + 1)
            for cell in value.__closure__ or ():
                self._value(cell.cell_contents, depth + 1)

    def _class(self, given: type) -> None:
        """Add a class and those that it inherits from; PyTorch's are of its version, others have code of their own."""
        for kind in given.__mro__:
            self.add("class", kind.__module__, kind.__qualname__)
            library = kind.__module__.partition(".")[0]
            if library in ("builtins", "torch") or not self._is_new(kind):
                continue
            self.add(str(getattr(sys.modules.get(library), "__version__", "")))
            for name, value in sorted(vars(kind).items()):
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(function, types.FunctionType):
                    self.add(name)
                    self._code(function.__code__)
                elif type(value) in structures.PLAIN and name != "__doc__" and name != "__module__":
                    self.add(name, repr(value))

    def _code(self, code: types.CodeType) -> None:
        """Add code without its file and lines, which are others wherever the program lies."""
        self.add(code.co_code.hex(), repr((code.co_names, code.co_varnames, code.co_freevars)))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self.add(type(constant).__name__, repr(sorted(map(repr, constant))) if isinstance(constant, frozenset)
                         else repr(constant))  # fmt: skip


def _is_open(kind: type) -> bool:
    """Tell whether all that an object of a class holds is in its attributes and items."""
    made_in_python = [part for part in kind.__mro__ if part.__flags__ & _HEAP_TYPE]
    slots = [name for part in made_in_python for name in vars(part).get("__slots__", ())]
    others = [part for part in kind.__mro__ if part not in made_in_python and part not in (object, *_CONTAINERS)]
    return not slots and not others


def _tensors(root: Any) -> Iterator[Tuple[str, Any]]:
    """Yield all weights and buffers by their names; one that is shared comes under each of its names."""
    for prefix, module in root.named_modules(remove_duplicate=False):
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield "{}.{}".format(prefix, name), tensor


def _add_values(torch: Any, content: Any, tensor: Any) -> None:
    """Add the values of a tensor, byte by byte."""
    with torch.inference_mode(False), torch.no_grad():
        plain = tensor.detach()
        if plain.is_complex():
            plain = torch.view_as_real(plain.resolve_conj())
        plain = plain.resolve_neg().to("cpu").contiguous().reshape(-1)
        if plain.numel():
            content.update(array_of(plain.view(torch.uint8)))


@functools.lru_cache(maxsize=None)
def _libraries() -> Tuple[str, ...]:
    """Return the folders of Python's library and of what is installed, where versions tell what there is."""
    paths = sysconfig.get_paths()
    names = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(name)}
    names.update(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the launcher's
    return tuple({path + os.sep for name in (*names, own) for path in (name, os.path.realpath(name))})


def program_files() -> Iterator[Tuple[str, str]]:
    """Yield the modules of the program's own that are imported by now, in the order of their names, and their files."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not (file.endswith(".py") or name == "__main__"):
            continue
        if not file.startswith(_libraries()) and not os.path.realpath(file).startswith(_libraries()):
            yield name, file


@functools.lru_cache(maxsize=None)
def program_digest() -> str:
    """Return a digest of the program's own files of Python, as far as they are imported by then.

    A call may depend on what stands in any of them. Where they lie is no matter: each job has a folder of its own. It
    is made once, so that it does not depend on what is imported for a lever.
    """
    digest, size = hashlib.sha256(), 0
    for name, file in program_files():
        try:
            with open_file(file, "rb") as source:
                data = source.read(MOST_CODE + 1)
        except OSError:  # in an archive, or gone: its classes have their code
            continue
        size += len(data)
        if size > MOST_CODE:
            raise structures.Unsupported("the program's own files are too large")
        digest.update("{} {} ".format(name, len(data)).encode("utf-8", "replace"))
        digest.update(data)
    return digest.hexdigest()
