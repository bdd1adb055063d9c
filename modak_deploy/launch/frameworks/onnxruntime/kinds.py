"""What levers of ONNX Runtime do to a session."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...lever import Lever


class Form(NamedTuple):
    """What all calls that are tried have in common."""

    names: Sequence[str]
    """Names of the outputs that are asked for; all of the model's when empty."""
    shapes: Dict[str, Any]
    """Shapes of the inputs by their names; None for what is no array."""


class OrtLever(Lever):
    """A lever that changes the options or providers of a session."""

    framework = "onnxruntime"
    versions = ">=1.10"
    live = True
    at_calls = True
    own_threads = True  # each session has its own, which wait for work by spinning
    format = ""

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        """Return why it has no effect on a session; None when it has."""
        return None

    def change(self, module: Any, options: Any, providers: List[Any]) -> List[Any]:
        """Change the options, and return the providers."""
        return providers

    def making(self, size: int) -> float:
        """Return the seconds that it takes to make it ready for a model of so many bytes, where it is expensive."""
        return 0.0

    def runner(self, model: Any, options: Any, form: Form) -> Optional[Callable[..., Any]]:
        """Return what does calls of a form in place of a session of the model, a path or bytes; None for a session."""
        return None

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is used when a session is made."""
