"""What is known of a Keras model, its batches, and the functions of TensorFlow within its own."""

from typing import Any, Callable, Iterator, List, Optional, Tuple

from ... import structures
from ..tensorflow.calls import no_room, refusal
from ..tensorflow.kinds import Graph
from .kinds import Subject

DEEPEST = 2
"""Functions within functions that Keras puts around those of TensorFlow."""


def states(subject: Subject) -> List[Any]:
    """Return all variables that a step may change: the model's, its metrics', its optimizers'."""
    model = subject.model
    optimizers = [value for value in vars(model).values() if isinstance(value, subject.keras.optimizers.Optimizer)]
    groups = [model.variables, model.metrics_variables, *(optimizer.variables for optimizer in optimizers)]
    return list({id(variable): variable for group in groups for variable in group}.values())


def copied(subject: Subject) -> Callable[[], bool]:
    """Copy what is not trained, and return what tells whether it has changed; MemoryError where there is no room."""
    variables = [getattr(variable, "value", variable) for variable in subject.model.non_trainable_variables]
    reason = no_room(variables)
    if reason is not None:
        raise MemoryError(reason)
    before = [variable.numpy().copy() for variable in variables]
    return lambda: any((variable.numpy() != value).any() for variable, value in zip(variables, before))


def refuses(subject: Subject) -> Optional[str]:
    """Return why nothing is tried on a model."""
    model = subject.model
    if model.run_eagerly:
        return "the model runs eagerly"
    if model.steps_per_execution != 1:
        return "the program does several batches in a call (steps_per_execution)"
    if (
        getattr(model, "_distribute_strategy", None) is not None
        or subject.keras.distribution.distribution() is not None
    ):
        return "the program distributes its work"
    return refusal(subject.tensorflow)


def signature(tensorflow: Any, data: Any) -> Tuple[Any, ...]:
    """Return the form of a batch: its containers, and what TensorFlow chooses a graph by of what they hold."""
    form = tensorflow.nest.map_structure(lambda _: 0, data)
    return (repr(form), *(_form(leaf) for leaf in tensorflow.nest.flatten(data)))


def _form(leaf: Any) -> Tuple[Any, ...]:
    dtype = getattr(leaf, "dtype", None)
    plain = leaf if dtype is None and isinstance(leaf, structures.PLAIN) else None
    return (type(leaf) if dtype is None else None, plain, getattr(leaf, "shape", None), dtype)


def graphs(function: Any) -> List[Graph]:
    """Return the graphs of the outermost functions of TensorFlow within a function that Keras has made."""
    level = [function]
    for _ in range(DEEPEST + 1):
        held = [item for item in level if hasattr(item, "python_function")]
        traced = [concrete for item in held for concrete in item._list_all_concrete_functions()]
        if traced:
            return [Graph(concrete) for concrete in traced]
        level = [inner for item in level if item not in held for inner in _within(item)]
    return []


def step_of(function: Any) -> Any:
    """Return TensorFlow's function for a batch within a function that Keras has made; None where it is not found."""
    if hasattr(function, "python_function"):
        return function
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(function, "__closure__", None) or ()))
    if "one_step_on_data" not in cells:
        return None
    inner = cells["one_step_on_data"].cell_contents
    held = [inner, *_within(inner)]  # Keras from 3.9 on has a function around it
    return next((item for item in held if hasattr(item, "python_function")), None)


def _within(function: Any) -> Iterator[Any]:
    """Return the functions that a function of Python refers to."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # it was never assigned
            continue
        if hasattr(value, "python_function") or hasattr(value, "__closure__"):
            yield value
