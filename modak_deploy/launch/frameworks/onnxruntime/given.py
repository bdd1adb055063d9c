"""What a program gives the options of a session by their methods, which cannot be read back from them."""

import functools
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...frames import take_out
from ...handlers import suppressed

ENTRY = "add_session_config_entry"
"""The method whose arguments are repeated for another session."""
GIVING = ("add_", "register_", "set_")
"""What the names of such methods begin with: initializers, custom operators, other dimensions."""
Entries = List[Tuple[str, str]]


class Given:
    """What options were given since ONNX Runtime was imported."""

    def __init__(self, kind: Any) -> None:
        """``kind`` is the class of options, whose methods are followed."""
        self._noted: Dict[int, Tuple[Any, Optional[Entries]]] = {}
        for name in dir(kind):
            method = getattr(kind, name)
            if name.startswith(GIVING) and callable(method):
                setattr(kind, name, self._following(name, method))

    def entries(self, options: Any) -> Optional[Entries]:
        """Return the entries of a session's configuration; None where it was given what cannot be repeated."""
        noted = self._noted.get(id(options))
        return [] if noted is None or noted[0]() is not options else noted[1]

    def _following(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(options: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = method(options, *args, **kwargs)
            except BaseException as error:
                take_out(error)
                raise
            with suppressed():
                self._note(options, name, [*args, *kwargs.values()])
            return result

        return call

    def _note(self, options: Any, name: str, given: List[Any]) -> None:
        key, entries = id(options), self.entries(options)
        if entries is not None:
            entries = [*entries, (given[0], given[1])] if name == ENTRY and len(given) == 2 else None
        self._noted[key] = (weakref.ref(options, lambda _: self._noted.pop(key, None)), entries)
