"""What levers of Keras do when a model's function for a batch is made, traced and called."""

import contextlib
import importlib
from typing import Any, Callable, ContextManager, List, Mapping, Optional

from ...lever import Lever
from ...versions import satisfies
from ..tensorflow.kinds import Graph

TRAIN, PREDICT = "train", "predict"
FOLLOWED = ">=3.4"
"""Versions whose functions for a batch can be replaced."""


def unfollowed(keras: Any) -> Optional[str]:
    """Return why the functions that Keras makes for batches are not followed; None where they are."""
    version = str(keras.__version__)
    backend = keras.config.backend() if satisfies(version, ">=3") else keras.backend.backend()  # Keras 2 has no config
    if backend == "tensorflow" and satisfies(version, FOLLOWED):
        return None
    return "Keras {} on {} is not supported; it needs {} on tensorflow".format(version, backend, FOLLOWED)


def plain_options() -> Any:
    """Return the options of a pipeline of TensorFlow's that does not tune itself."""
    options = importlib.import_module("tensorflow").data.Options()
    options.autotune.enabled = False
    return options


class Subject:
    """The model that levers are tried on, and for which of its functions."""

    def __init__(self, keras: Any, tensorflow: Any, model: Any, kind: str) -> None:
        self.keras = keras
        self.tensorflow = tensorflow
        self.model = model
        self.kind = kind
        self.random = False
        """Whether the function's graph draws random numbers, wherever the program does that."""
        self.graph: Optional[Graph] = None
        """The function's graph, where it was traced for one form of batches only."""
        self.graphs: List[Graph] = []
        """The graphs of all its forms."""
        self.step: Any = None
        """TensorFlow's function for a batch, the innermost one that the program has traced."""
        self.unchanged = False
        """Whether the next batch is known to have the weights of the last one."""
        self.turns = 0
        """Batches before which the weights may have changed, whoever did them."""
        self.comparing = (0.0, 0.0)
        """Seconds that the last batch took to compare weights, and those that a comparison takes."""

    @property
    def layers(self) -> List[Any]:
        """Return all layers, the model among them."""
        return list(self.model._flatten_layers())


class KerasLever(Lever):
    """A lever that is switched between the batches of a running fit or predict."""

    framework = "keras"
    versions = ">=3"
    live = True
    format = ""

    def applies(self, subject: Subject) -> Optional[str]:
        """Return why it has no effect on a model; None when it has."""
        return None

    def making(self, subject: Subject) -> ContextManager[Any]:
        """Return what Keras's make_train_function or make_predict_function is called in."""
        return contextlib.nullcontext()

    def tracing(self, subject: Subject) -> Optional[ContextManager[Any]]:
        """Return what the Python code of a step is run in: by TensorFlow once for each form of its input."""
        return None

    def compiled(self, subject: Subject) -> Optional[Callable[[Any], Any]]:
        """Return what does a batch by what was traced already; None where Keras's function does it."""
        return None

    def calling(self) -> ContextManager[Any]:
        """Return what each call of the function is done in."""
        return contextlib.nullcontext()

    def seconds(self, subject: Subject) -> Optional[float]:
        """Return the seconds that it takes to make it ready; None where that is as long as the first call took."""
        return None

    def function(self, subject: Subject) -> Optional[Callable[[Any], Any]]:
        """Return what does a batch in the place of Keras's function; None where that one does."""
        return None

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Switch it on for the whole run."""
        raise NotImplementedError


class StepLever(KerasLever):
    """A lever that Keras, or TensorFlow, has a setting for, which holds for all models of the process.

    Chosen before the run, it is switched on for each function that it applies to, with the checks of a trial. The
    setting of the process is used where the configuration says how it is to be set, and where functions cannot be
    followed: it is unchecked, and the program can see it, as in the dtype of predictions and in saved models.
    """

    at_calls = True

    def at_start(self, module: Any, settings: Mapping[str, Any]) -> bool:
        return bool(settings) or unfollowed(module) is not None

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        if self.at_start(module, settings):
            self.set(module, settings)

    def set(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Set it for the whole process."""
        raise NotImplementedError
