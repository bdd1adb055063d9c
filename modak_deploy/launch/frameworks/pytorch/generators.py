"""The process's generators of random numbers: their states, what sets them back, and what shows that they were used."""

import contextlib
import pickle
import random
import sys
from typing import Any, Callable, List, Tuple


def states(torch: Any) -> List[Tuple[Callable[[Any], Any], Any]]:
    """Return the state of each generator that programs draw from, after the function that sets it."""
    pairs: List[Tuple[Callable[[Any], Any], Any]] = [
        (torch.set_rng_state, torch.get_rng_state()),
        (random.setstate, random.getstate()),
    ]
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        pairs.append((numpy_random.set_state, numpy_random.get_state(legacy=False)))
    if torch.cuda.is_initialized():  # is_available would keep processes that are forked later from the GPU
        pairs.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return pairs


def comparable(torch: Any, others: List[Any]) -> List[Any]:
    """Return the states of all of them, and of those among some objects, as values that can be compared."""
    numpy_random = sys.modules.get("numpy.random")
    kinds: Tuple[Any, ...] = (random.Random,)
    if numpy_random is not None:
        kinds += (numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
    values = [_value(state) for _, state in states(torch)]
    for other in others:
        if isinstance(other, torch.Generator):
            values.append(_value(other.get_state()))
        elif isinstance(other, kinds):
            with contextlib.suppress(Exception):  # the operating system's has no state, one of the program's may not
                values.append(pickle.dumps(other))
    return values


def _value(state: Any) -> Any:
    if isinstance(state, list):  # a tensor for each GPU
        return list(map(_value, state))
    return state.numpy().tobytes() if hasattr(state, "numpy") else pickle.dumps(state)
