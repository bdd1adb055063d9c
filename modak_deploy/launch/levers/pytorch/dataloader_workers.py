"""Worker processes for DataLoaders that the program makes without saying how many."""

import functools
from typing import Any, Mapping

from ... import hardware
from ...frameworks.pytorch.kinds import TorchLever


class DataLoaderWorkers(TorchLever):
    name = "pytorch-dataloader-workers"
    versions = ">=1.9"
    summary = "worker processes for DataLoaders for which the program gives no number"
    changes = "input"
    numerics = "relaxed"  # random changes of samples draw from the workers' own generators
    live = False

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        workers = int(settings.get("workers", min(4, max(1, hardware.cores() - 1))))
        loader = module.utils.data.DataLoader
        init = loader.__init__

        @functools.wraps(init)
        def changed(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
            # The first arguments by position are batch_size, shuffle, sampler, batch_sampler, num_workers.
            iterable = isinstance(dataset, module.utils.data.IterableDataset)
            if len(args) < 5 and "num_workers" not in kwargs and not iterable:
                kwargs.update(num_workers=workers, persistent_workers=True)
            init(self, dataset, *args, **kwargs)

        loader.__init__ = changed


LEVER = DataLoaderWorkers()
