"""Call a function when the program has imported a module, and never import a module for it."""

import functools
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence

Callback = Callable[[ModuleType], None]


class _Loader(Loader):
    """Does what another loader does, and then calls back; all else of that one is there for who asks for a spec."""

    def __init__(self, loader: Any, callback: Callback) -> None:
        self._loader = loader
        self._callback = callback

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of the object itself, as copies ask for them before there is a loader
            raise AttributeError(name)
        return getattr(self._loader, name)

    # What isinstance goes by, of whoever asks for a spec: some look whether a module comes from a file.
    __class__ = property(lambda self: type(self._loader))

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module shows its own loader: inspect.getsource, pkgutil and importlib.resources ask it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback(module)


class ImportHooks(MetaPathFinder):
    """Finder at the head of sys.meta_path that lets the others find, and wraps the loaders of the modules awaited."""

    def __init__(self) -> None:
        self._awaited: Dict[str, List[Callback]] = {}

    def when_imported(self, name: str, callback: Callback) -> None:
        """Call ``callback`` with the module after its import; at once where that has happened."""
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
            return
        self._awaited.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname not in self._awaited:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, functools.partial(self._imported, fullname))
                return spec
        return None

    def _imported(self, fullname: str, module: ModuleType) -> None:
        # Not before: a program may ask whether there is such a module, as importlib.util.find_spec does.
        for callback in self._awaited.pop(fullname, ()):
            callback(module)

    def remove(self) -> None:
        """Await nothing any more."""
        self._awaited.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)
