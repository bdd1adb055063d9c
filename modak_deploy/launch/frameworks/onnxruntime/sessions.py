"""The program's sessions, of which a table tells what they were made of, and second ones of the same models.

Nothing is an attribute of the program's own: a class that is derived from InferenceSession may limit its attributes,
look up those that it has not, or copy them all.
"""

import os
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from ... import children
from .given import Entries

KEPT = (
    "execution_mode",
    "graph_optimization_level",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "log_severity_level",
    "use_deterministic_compute",
)
"""Options of the program's session that can be read back, and are taken over."""
OWN = "_modak_own"
"""What the launcher's own sessions have."""
SILENT = 4
"""The level of ONNX Runtime's log at which a session says nothing: what there is to say, the program's own has said."""


class Source(NamedTuple):
    """What a session was made of."""

    content: Union[bytes, str]
    """The model, or its path, which leads to it also when the program has gone to another folder."""
    options: Dict[str, Any]
    """As they were then: the program may use the same object for another session."""
    seconds: float
    """What loading took."""
    file: Optional[Tuple[int, ...]]
    """What tells the file from one that is put in its place."""
    entries: Entries = []
    """Those of the session's configuration, which options do not tell."""
    memory: int = 0
    """Bytes by which the process grew while it was loaded, weights in other files included."""

    @property
    def size(self) -> int:
        """Return the bytes of the model's file, without those of external data; 0 where it is no more."""
        try:
            return len(self.content) if isinstance(self.content, bytes) else os.path.getsize(self.content)
        except OSError:
            return 0

    @property
    def model(self) -> Union[bytes, str]:
        """Return the model, or its path; ValueError where another one is there, OSError where none is."""
        if self.file is not None and _file(str(self.content)) != self.file:
            raise ValueError("the model's file has changed since the session was made")
        return self.content


class Sessions:
    """The sessions of the process, and ONNX Runtime as it was imported: the program may put its own in its place."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._class = module.InferenceSession
        self._init, self.run = self._class.__init__, self._class.run
        self._options = module.SessionOptions
        self._entries: Dict[int, Tuple[Any, Optional[Source], List[Any]]] = {}

    def note(self, session: Any, source: Optional[Source]) -> None:
        """Note what a session of the program's was made of, in place of what it was before."""
        key = id(session)
        reference = weakref.ref(session, lambda _: self._entries.pop(key, None))
        self._entries[key] = (reference, source, [])

    def source(self, session: Any) -> Optional[Source]:
        """Return what a session was made of; None where that cannot be repeated."""
        entry = self._entries.get(id(session))
        return None if entry is None else entry[1]

    def runs(self, session: Any) -> List[Any]:
        """Return the list that holds what counts a session's runs, once there is something."""
        if id(session) not in self._entries:
            self.note(session, None)
        return self._entries[id(session)][2]

    def options(self, source: Optional[Source]) -> Any:
        """Return new options with those of a session; the usual ones where it is not known what it was made of."""
        options = self._options()
        for name, value in source.options.items() if source is not None else ():
            setattr(options, name, value)
        for key, text in source.entries if source is not None else ():
            options.add_session_config_entry(key, text)
        return options

    def second(self, source: Source, options: Any, providers: List[str]) -> Any:
        """Return a session of the launcher's own, which says nothing."""
        options.log_severity_level = SILENT
        made = self._class.__new__(self._class)
        setattr(made, OWN, True)
        children.never_free(made)
        # Without a fallback, of which it would print a line.
        self._init(made, source.model, sess_options=options, providers=providers, enable_fallback=0)
        return made


def described(
    content: Any, given: Dict[str, Any], seconds: float, entries: Optional[Entries] = None, memory: int = 0
) -> Optional[Source]:
    """Return what a session was made of by these arguments; None where it cannot be repeated faithfully.

    More than options and the names of providers cannot be, nor can what a session writes of its runs, nor options that
    were given what they do not tell, of which no ``entries`` are left.
    """
    options = given.get("sess_options")
    if (
        (options is not None and entries is None)
        or not set(given) <= {"sess_options", "providers"}
        or getattr(options, "enable_profiling", False)
    ):
        return None
    if not all(isinstance(provider, str) for provider in given.get("providers") or ()):
        return None
    kept = {name: getattr(options, name) for name in KEPT if hasattr(options, name)}
    if isinstance(content, bytes):
        return Source(content, kept, seconds, None, entries or [], memory)
    try:
        path = os.path.abspath(content)
        return Source(path, kept, seconds, _file(path), entries or [], memory)
    except OSError:
        return None


def _file(path: str) -> Tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
