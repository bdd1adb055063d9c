"""Batches in pinned memory where there is a GPU and the program says nothing about it."""

import functools
from typing import Any, Mapping

from ...frameworks.pytorch.kinds import TorchLever


class PinMemory(TorchLever):
    name = "pytorch-pin-memory"
    versions = ">=1.9"
    summary = "batches of DataLoaders in pinned memory, from where copies to a GPU are faster"
    changes = "input"
    live = False

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        if not module.cuda.is_available():
            raise RuntimeError("no GPU found")
        loader = module.utils.data.DataLoader
        init = loader.__init__

        @functools.wraps(init)
        def changed(self: Any, *args: Any, **kwargs: Any) -> None:
            if len(args) < 8:  # dataset ... num_workers, collate_fn, pin_memory
                kwargs.setdefault("pin_memory", True)
            init(self, *args, **kwargs)

        loader.__init__ = changed


LEVER = PinMemory()
