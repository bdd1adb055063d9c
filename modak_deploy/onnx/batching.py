"""Requests of several clients in one call: what waits while a call runs becomes the next call.

Not MLServer's own batcher (1.7.1, mlserver/batching): it joins the data of requests before anything has looked at
them, so that one whose data is too short shifts the samples of the others; and when a client goes away,
_predict_callback ends with a KeyError before the others have their answers.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from modak_deploy.errors import ModakError
from modak_deploy.onnx.compare import close
from modak_deploy.onnx.runner import Arrays, Runner

_RELATIVE = 1e-3
"""Largest difference between a sample alone and the same in a batch, see ``close``: matrix products of another size add
in another order. A model that mixes its samples differs by far more."""


class OverloadedError(ModakError):
    """More requests wait than are accepted."""


@dataclass
class _Waiting:
    inputs: Arrays
    count: int
    answer: "asyncio.Future[Arrays]"

    @property
    def signature(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What must be equal in all requests of one call: the sizes of each sample."""
        return tuple(sorted((name, array.shape[1:]) for name, array in self.inputs.items()))


class Batcher:
    """One call at a time, in a thread; requests that come meanwhile wait, and go together into the next call."""

    def __init__(
        self,
        run: Callable[[Arrays], Arrays],
        *,
        largest: int = 32,
        wait: float = 0.0,
        longest_queue: int = 4096,
        observe: Callable[[int], None] = lambda count: None,
    ) -> None:
        """``largest``: samples of one call, 1 for none together. ``wait``: seconds to wait for more of them."""
        self._run = run
        self._largest = largest
        self._wait = wait
        self._longest = longest_queue
        self._observe = observe
        self._queue: deque[_Waiting] = deque()
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "inference")

    async def submit(self, inputs: Arrays, count: int) -> Arrays:
        """Return the outputs of a request that ``Runner.check`` has passed; OverloadedError when too many wait."""
        if len(self._queue) >= self._longest:
            raise OverloadedError(f"{self._longest} requests are waiting; try again later")
        request = _Waiting(inputs, count, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        self._more.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.answer

    async def close(self) -> None:
        """Answer all that wait, and stop."""
        while self._task is not None and not self._task.done():
            with contextlib.suppress(Exception):
                await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        while self._queue:
            if self._wait and self._largest > 1:
                await self._gather()
            batch = self._take()
            if batch:
                await self._answer(batch)

    async def _gather(self) -> None:
        """Wait until a whole batch is there, or the time is up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait
        while sum(request.count for request in self._queue) < self._largest and (rest := end - loop.time()) > 0:
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), rest)
            except TimeoutError:
                return

    def _take(self) -> list[_Waiting]:
        """Return the first request with all others that fit into its call; those whose client is gone are dropped."""
        self._queue = deque(request for request in self._queue if not request.answer.done())
        if not self._queue:
            return []
        first = self._queue.popleft()
        batch, count, others = [first], first.count, deque[_Waiting]()
        while self._queue:
            request = self._queue.popleft()
            if count + request.count <= self._largest and request.signature == first.signature:
                batch.append(request)
                count += request.count
            else:
                others.append(request)
        self._queue = others
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        self._observe(sum(request.count for request in batch))
        try:
            outputs = await loop.run_in_executor(self._thread, self._run, _joined(batch))
        except Exception as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            # One of them is to blame: each alone, and the others have their answers.
            for request in batch:
                await self._answer([request])
            return
        start = 0
        for request in batch:
            end = start + request.count
            if not request.answer.done():
                whole = len(batch) == 1
                request.answer.set_result(outputs if whole else {n: array[start:end] for n, array in outputs.items()})
            start = end


def _joined(batch: list[_Waiting]) -> Arrays:
    if len(batch) == 1:
        return batch[0].inputs
    return {name: np.concatenate([request.inputs[name] for request in batch]) for name in batch[0].inputs}


def _fail(request: _Waiting, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)


def samples_are_independent(runner: Runner) -> bool:
    """Return whether each sample's outputs are the same alone and in a batch with others; only then may they be joined.

    It is tried on random numbers. Models without a batch axis, or with text as input, are not joined.
    """
    if not runner.batched or any(spec.dtype in ("string", "bfloat16") for spec in runner.inputs):
        return False
    generator = np.random.default_rng(0)
    inputs: Arrays = {}
    for spec in runner.inputs:
        shape = [3, *(size if isinstance(size, int) else 4 for size in spec.shape[1:])]
        kind = np.dtype(spec.dtype)
        numbers = generator.standard_normal(shape) if kind.kind == "f" else generator.integers(0, 2, shape)
        inputs[spec.name] = numbers.astype(kind)
    try:
        together = runner.run(inputs)
        alone = [runner.run({name: array[at : at + 1] for name, array in inputs.items()}) for at in range(3)]
    except ModakError:
        return False
    for name, array in together.items():
        parts = [part[name] for part in alone]
        if len(array) != 3 or any(part.shape != (1, *array.shape[1:]) for part in parts):
            return False
        if not close(array, np.concatenate(parts), _RELATIVE):
            return False
    return True
