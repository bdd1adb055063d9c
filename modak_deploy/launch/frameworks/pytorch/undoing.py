"""What a training's forward call changes beside its result, and how it is set back where a lever fails in it.

The program's own call comes in its place: without this it would meet other random numbers, and batch normalisation
would count the batch twice.
"""

import random
import sys
from typing import Any, Callable, List, Tuple


def keep(torch: Any, module: Any, buffers: bool = True) -> Callable[[], None]:
    """Note the states of random numbers, and ``buffers``, and return what sets them back."""
    numpy_random = sys.modules.get("numpy.random")
    states: List[Tuple[Callable[[Any], Any], Any]] = [
        (torch.set_rng_state, torch.get_rng_state()),
        (random.setstate, random.getstate()),
    ]
    if numpy_random is not None:
        states.append((numpy_random.set_state, numpy_random.get_state(legacy=False)))
    if torch.cuda.is_initialized():
        states.append((torch.cuda.set_rng_state, torch.cuda.get_rng_state()))
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
