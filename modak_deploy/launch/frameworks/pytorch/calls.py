"""Intercept the outermost call of a module, in evaluation and in training."""

import functools
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, cast

from ... import clock
from ...frames import take_out
from ...handlers import let_through
from ...progress import Progress, weakly
from ...session import Session
from ...trials import sentence, shielded
from ..counting import Pause
from . import replica
from .inference import Inference
from .interception import intercept, release
from .kinds import Subject
from .objects import held_by, modules_of
from .once import Once
from .work import Work


class Calls:
    """Stands between the program and one module that it calls."""

    _local = threading.local()

    def __init__(self, session: Session, torch: Any, root: Any) -> None:
        self._session = session
        self._torch = torch
        self._caller: Dict[str, int] = {}
        """The thread that does a call: a lock stays locked where a handler for a signal raises just after it is."""
        self._progress: Optional[Progress] = None
        self._label = type(root).__name__
        self._pause = Pause()
        """Calls that are not looked at: short ones, where nothing is tried for now and the module goes on as it is."""
        self.inference: Optional[Inference] = None
        self._once: Optional[Once] = None
        """What does calls that cannot be done twice."""
        self._ended: Optional[str] = None
        """Why nothing is tried any more; another thread may say so while a call is being done."""
        self.training: Optional[Callable[[Callable[..., Any], Any, Any], Any]] = None
        """What does a training call, where the optimizer's trials have put it."""
        reference = weakref.ref(root)
        plain, weights = functools.partial(_is_plain, session, torch, reference), functools.partial(_weights, reference)
        self.work = {training: Work(torch, training, plain, weights) for training in (False, True)}
        """No part of it leads back here: all that is held for a module goes at once when the module does."""
        self._root = intercept(torch, root, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._done(args, kwargs)
        except BaseException as error:
            take_out(error)
            raise

    def _done(self, args: Any, kwargs: Any) -> Any:
        """Return the result of a call."""
        root = self._root()
        impl = root._call_impl  # type: ignore[union-attr]
        if getattr(self._local, "inside", False) or not self._session.active or self._special():
            return impl(*args, **kwargs)
        if self._pause.left > 0 and self.training is None and not root.training:  # type: ignore[union-attr]
            return self._unseen(impl, args, kwargs)
        impl = self.work[bool(root.training)].observing(impl)  # type: ignore[union-attr]
        if root.training or self._torch.is_grad_enabled():  # type: ignore[union-attr]
            if self.training is None:
                return impl(*args, **kwargs) if root.training else self._counted(impl, args, kwargs)  # type: ignore[union-attr]
            return self._nested(self.training, impl, args, kwargs, self._fail)
        return self._evaluation(root, impl, args, kwargs)

    def remove(self, reason: str) -> None:
        """Leave the module to itself."""
        root = self._root()
        if root is not None:
            release(root, self)
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._ended = self._ended or reason
        if self.inference is not None:
            self.inference.stop(reason)
        if self._once is not None:
            self._once.stop(reason)

    def _special(self) -> bool:
        """Tell whether the call is traced, exported, transformed or observed, not done for its result."""
        torch = self._torch
        return bool(
            torch._C._get_tracing_state() is not None
            or torch.compiler.is_compiling()
            or torch._C._len_torch_dispatch_stack()
            or torch._C._len_torch_function_stack()
            or getattr(torch.autograd, "_profiler_enabled", bool)()
            or torch._C._functorch.peek_interpreter_stack() is not None
            or self._in_dual_level()
            or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
        )

    def _in_dual_level(self) -> bool:
        """Tell whether derivatives are computed forwards, with no gradients enabled: a conversion's result has none."""
        forward = getattr(self._torch.autograd, "forward_ad", None)
        return bool(getattr(forward, "_current_level", -1) >= 0)

    def _evaluation(self, root: Any, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = threading.get_ident()
        if self._caller.setdefault("thread", thread) != thread:
            self._stop("the module is called from several threads at once")
            return impl(*args, **kwargs)
        try:
            if self.inference is None and self._session.tries_or_chosen:
                try:
                    self.inference = Inference(self._session, self._torch, root, self.work[False])
                except Exception as error:  # whatever a module of the program's, or a version of PyTorch, raises
                    let_through(error)
                    self._fail(sentence(error))
            inference = self.inference
            if inference is None or self._ended or (inference.over and inference.unrepeatable is None):
                return self._counted(impl, args, kwargs)
            done = self._once_only if inference.over else self._inferred
            return self._nested(done, impl, args, kwargs, self._fail)
        finally:
            self._caller.clear()

    def _unseen(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the result of a call that is not looked at; modules within are not counted either."""
        try:
            self._local.inside = True
            result = impl(*args, **kwargs)
        finally:
            self._local.inside = False
        self._pause.left -= 1
        return result

    def _inferred(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        start, inference = clock.now(), cast(Inference, self.inference)
        result = inference.call(impl, args, kwargs, self._pause.passed)
        self._count(start, inference.rests)
        return result

    def _once_only(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        start, inference = clock.now(), cast(Inference, self.inference)
        if self._once is None:
            subject = Subject(self._torch, self._root(), operations=self.work[False].operations)
            self._once = Once(self._session, self._torch, subject, self._label, str(inference.unrepeatable))
            if self._ended:
                self._once.stop(self._ended)
        result = self._once.call(impl, args, kwargs, self._pause.passed)
        self._count(start, self._once.rests(clock.now() - start))
        return result

    def _counted(self, impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        start = clock.now()
        result = self._nested(_plain, impl, args, kwargs, self._fail)
        alone = self.inference is None or self.inference.over or self.inference.rests is not None
        self._count(start, clock.now() - start if alone else None)
        return result

    def _nested(self, call: Any, impl: Callable[..., Any], args: Any, kwargs: Any, stop: Callable[[str], None]) -> Any:
        try:  # from here on: a handler for a signal may raise at any moment
            self._local.inside = True
            return shielded(call, impl, args, kwargs, stop)
        finally:
            self._local.inside = False

    def _fail(self, reason: str) -> None:
        self._session.record.fallback("the observation of " + self._label, reason)
        self.remove(reason)
        self.training = None

    def _count(self, start: float, rests: Optional[float]) -> None:
        """Count a call that began at ``start``, and those before it that were not looked at.

        ``rests`` is what each takes, where those after it need not be either.
        """
        try:
            self._add(start, clock.now())
            if rests is not None and not cast(Progress, self._progress).asynchronous:
                self._pause.begin(rests)
        except Exception as error:  # the call is done, and its result matters more
            self._session.give_up(self._label, error)

    def _add(self, start: float, end: float) -> None:
        if self._progress is None:
            self._progress = self._session.counters.counter("inference: " + self._label, "call")
            self._progress.pace = weakly(self._pace)
            root = self._root()
            if root is not None:
                self._progress.features = features(self._torch, root)
                self._progress.asynchronous = self._progress.features["device"] != "cpu"
                self.work[False].into(self._progress.features)
            self._progress.pauses.append(self._pause)
        units = 1 + self._pause.take()
        self._progress.add(end, (end - start) * units, units)
        self._session.evaluations += units
        self._session.counters.tick(end)

    def _pace(self) -> Optional[float]:
        tried = self.inference if self._once is None else self._once
        return None if tried is None else tried.pace


def _plain(impl: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return impl(*args, **kwargs)


def _is_plain(session: Session, torch: Any, reference: "weakref.ref[Any]") -> bool:
    """Tell whether nothing of a module is compiled, by the program or by a library of its own."""
    root = reference()
    return not session.hands_off and root is not None and replica.refusal(torch, root) is None


def _weights(reference: "weakref.ref[Any]") -> List[Any]:
    root = reference()
    modules = [] if root is None else modules_of(root)
    return [*held_by(modules, "_parameters"), *held_by(modules, "_buffers")]


def features(torch: Any, root: Any) -> Any:
    """Return what a model of performance may want to know about a module."""
    modules = modules_of(root)
    weights = held_by(modules, "_parameters")
    total = sum(weight.numel() for weight in weights)
    convolutions = sum(weight.numel() for weight in weights if weight.dim() >= 4)
    return {
        "model": type(root).__name__,
        "parameters": total,
        "weight_bytes": sum(weight.numel() * weight.element_size() for weight in weights),
        "convolution_share": convolutions / total if total else 0.0,
        "modules": len(modules),
        "device": weights[0].device.type if weights else "cpu",
        "threads": torch.get_num_threads(),
    }
