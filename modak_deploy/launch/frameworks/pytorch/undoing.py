"""What a training's forward call changes beside its result, and how it is set back where a lever fails in it.

The program's own call comes in its place: without this it would meet other random numbers, and batch normalisation
would count the batch twice.
"""

from typing import Any, Callable

from . import generators


def keep(torch: Any, module: Any, buffers: bool = True) -> Callable[[], None]:
    """Note the states of random numbers, and ``buffers``, and return what sets them back."""
    states = generators.states(torch)
    held = list(module.buffers()) if buffers else []
    copies = [(buffer, buffer._version, buffer.detach().clone()) for buffer in held if not buffer.is_inference()]

    def undo() -> None:
        for put, state in states:
            put(state)
        with torch.no_grad():
            for buffer, version, copy in copies:
                if buffer._version != version:  # gradients may need those that nobody has written to
                    buffer.copy_(copy)

    return undo
