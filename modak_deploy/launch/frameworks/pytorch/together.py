"""A training of several ranks: what the first one decides, all do, at the same step."""

from typing import Any, List, Optional, Tuple

from ... import lever as levers_table
from ...search import Search
from ...session import Session
from ...variants import DEFAULT, Variant
from . import replica
from .calls import Calls
from .kinds import TorchLever
from .ranks import SECONDS, Instruction, Ranks

UNMEASURED = 200
"""Steps in a row that cannot be measured, after which ranks no longer ask one another."""
LONGEST = SECONDS / 4
"""Seconds that switching a lever on may take by what is expected: the other ranks wait for the first one meanwhile."""
GRADIENTS = 4
"""Gradients that tell whether all are finite, where several ranks have to know alike."""


class Together:
    """The part of ``Training`` that has to do with other ranks."""

    _session: Session
    _torch: Any
    _owner: Any
    """Returns the module whose weights they are, as long as it lives."""
    _progress: Any
    _search: Optional[Search]
    _variant: Variant
    _last: Optional[float]
    _loss: Optional[Any]
    _ranks: Optional[Ranks]
    _follows: bool
    _ended: bool
    _plain: Optional[str]
    _unmeasured: int
    _gradients: List[Tuple[Any, Any]]
    """Weights whose gradients were taken for a step that is left out, with these."""

    @property
    def _module(self) -> Any:
        return self._owner()

    def _refusal(self) -> Optional[str]:
        """Return why the program's module is left alone; None when it is not."""
        held = self._held()
        if self._session.hands_off or held is None:
            return self._session.hands_off
        compiled = held._compiled_call_impl
        if compiled is not None and not isinstance(compiled, Calls):
            return "the program compiles modules itself"
        return replica.refusal(self._torch, held)

    def _held(self) -> Any:
        """Return the module whose weights they are: of several ranks, what DistributedDataParallel holds.

        A call of the latter tells the other ranks of its buffers: it must not be repeated where a lever fails in it.
        """
        parallel = self._session.ranks > 1 and isinstance(self._module, self._torch.nn.parallel.DistributedDataParallel)
        return self._module.module if parallel and self._module is not None else self._module

    def _alike(self, levers: List[TorchLever], chosen: bool) -> List[TorchLever]:
        """Return those of the levers that several ranks can have on; that others are not is recorded."""
        if self._held() is self._module and not self._session.together:
            return levers  # each rank for itself, as chosen before the run
        if self._ranks is not None:
            for lever in [lever for lever in levers if lever.taking() > LONGEST]:
                reason = "ranks do not wait for one another as long as it takes to switch it on"
                self._session.record.add("not_offered", lever=lever.name, reason=reason)
                levers = [other for other in levers if other is not lever]
        reason = "several ranks cannot switch it together"
        alike = [lever for lever in levers if lever.ranks and not (self._joined and is_at_calls(lever))]
        for lever in [lever for lever in levers if lever not in alike]:
            if chosen:
                self._session.record.fallback(lever.name, reason)
            else:
                self._session.record.add("not_offered", lever=lever.name, reason=reason)
        return alike

    @property
    def _joined(self) -> bool:
        """Tell whether a call of the module meets those of other ranks: one that failed must not be repeated alone."""
        held = self._held()
        return held is not None and any(isinstance(module, self._torch.nn.SyncBatchNorm) for module in held.modules())

    def _call_plainly(self, reason: str) -> None:
        """Call the module as it is until all ranks do: the optimizer's step must be the same on all of them."""
        self._plain = reason
        if self._follows or self._ended:
            self._session.record.fallback(self._variant.name, reason)
        if self._follows and self._ranks is not None:
            self._ranks.complain(self._variant.name)

    def _keep_finite(self, optimizer: Any) -> None:
        """Keep gradients that are not finite from the weights, where a lever may be the reason, on all ranks alike.

        Each rank has a loss of its own, and the gradients of all. The smallest ones are looked at, those of biases
        mostly, which a loss that is not finite reaches.
        """
        if not self._variant.levers:
            return
        gradients = [weight.grad for group in optimizer.param_groups for weight in group["params"]]
        smallest = sorted((entry for entry in gradients if entry is not None), key=lambda entry: int(entry.numel()))
        if self._are_finite(smallest[:GRADIENTS]):
            return
        self._leave_out(optimizer)
        reason = "the gradients are not finite; this step was left out"
        if self._search is None:
            self._session.record.fallback(self._variant.name, reason)
        self._fail(reason)
        if self._search is None or self._ended:  # all ranks have seen it
            self._switch(DEFAULT)

    def _leave_out(self, optimizer: Any) -> None:
        """Have a step change no weight; the gradients are there again after it."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._gradients.append((parameter, parameter.grad))
                parameter.grad = None
        self._loss = None

    def _give_back(self) -> None:
        """Give back what was taken for a step that was left out."""
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._gradients = []

    def _finite(self, optimizer: Any) -> bool:
        """Tell whether all gradients are finite: a program may have seen to that, whatever its loss was."""
        gradients = [weight.grad for group in optimizer.param_groups for weight in group["params"]]
        return self._are_finite([gradient for gradient in gradients if gradient is not None])

    def _are_finite(self, gradients: List[Any]) -> bool:
        values = (gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients)
        return all(bool(self._torch.isfinite(value).all()) for value in values)

    def _together(self, ranks: Ranks) -> None:
        """Do the next step as all ranks do it."""
        instruction = self._decided(ranks) if ranks.first else ranks.ask(self._progress.count)
        if not ranks.first and instruction.variant != self._variant.name:
            table = {lever.name: lever for lever in levers_table.levers("pytorch")}
            names = [name for name in instruction.variant.split(" + ") if name in table]
            self._switch(Variant(tuple(table[name] for name in names)))
            self._last = self._now()
        self._plain = None
        if instruction.last:
            self._ranks, self._ended = None, True

    def _decided(self, ranks: Ranks) -> Instruction:
        """Return what the first rank has decided for the next step, once it has told the others."""
        try:
            if self._search is not None:
                self._judge(self._search, ranks)
            instruction = Instruction(self._variant.name, self._search is None or self._search.settled)
        except Exception:
            ranks.tell(self._progress.count, Instruction(DEFAULT.name, True))
            raise
        if not ranks.tell(self._progress.count, instruction):
            self.stop("the other ranks cannot be told")
            return Instruction(DEFAULT.name, True)
        return instruction

    def _judge(self, search: Search, ranks: Ranks) -> None:
        if ranks.left():
            self.stop("another rank goes on by itself")
        elif self._unmeasured > UNMEASURED:
            self.stop("each step has calls in evaluation mode beside it")
        else:
            if self._plain is not None:
                self._fail(self._plain)
            elif self._variant.levers and ranks.complained(self._variant.name):
                self._fail("it failed on another rank")
            self._follow(search)

    # what ``Training`` does

    def stop(self, reason: str) -> None:
        """Go back to the program's own way for good."""
        raise NotImplementedError

    def _follow(self, search: Search) -> None:
        """Choose the variant of the next step."""
        raise NotImplementedError

    def _switch(self, variant: Variant) -> None:
        raise NotImplementedError

    def _fail(self, reason: str) -> None:
        raise NotImplementedError

    def _now(self) -> float:
        raise NotImplementedError


def is_at_calls(lever: TorchLever) -> bool:
    """Tell whether a lever changes what a call of the module does."""
    names = ("context", "argument", "step")
    return any(getattr(type(lever), name) is not getattr(TorchLever, name) for name in names)
