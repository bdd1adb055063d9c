"""Options of sessions that a lever of the catalogue names, as it does by its effect ``session``."""

from typing import Any, Dict, List, Mapping, Optional

from ...config import SESSION_OPTIONS
from ...frameworks.onnxruntime.kinds import OrtLever


class Options(OrtLever):
    name = SESSION_OPTIONS
    summary = "options of the session, by their names"
    changes = "session"
    order = 90

    def __init__(self) -> None:
        self._options: Dict[str, Any] = {}

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Keep the options; AttributeError or TypeError for one that this release has not."""
        options = module.SessionOptions()
        wanted = {name: _value(module, options, name, value) for name, value in settings.items()}
        for name, value in wanted.items():
            setattr(options, name, value)
        self._options = wanted

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        return None if self._options else "no options are given"

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        for name, value in self._options.items():
            setattr(options, name, value)
        return providers


def _value(module: Any, options: Any, name: str, value: Any) -> Any:
    """Return the value as the option takes it; the name of an enumeration's value becomes that value."""
    if name.startswith("_") or not hasattr(options, name) or callable(getattr(options, name)):
        raise AttributeError("sessions of onnxruntime {} have no option {!r}".format(module.__version__, name))
    present = getattr(options, name)
    return getattr(type(present), value) if isinstance(value, str) and not isinstance(present, str) else value


LEVER = Options()
