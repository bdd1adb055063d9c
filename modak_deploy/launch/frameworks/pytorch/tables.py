"""Arguments that are numbers of a table's rows, as those of words are.

PyTorch refuses a number that a table has not. ONNX Runtime takes negative ones for rows from the end, and OpenVINO has
zeros for such rows, or leaves them out (1.32 and 2026.4).
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

LOOKUPS: Dict[str, int] = {
    "embedding": 1, "_embedding_bag": 1, "_embedding_bag_forward_only": 1, "gather": 2, "index": 1, "index_add": 2,
    "index_put": 1, "index_select": 2, "scatter": 2, "scatter_add": 2, "scatter_reduce": 2,
}  # fmt: skip
"""Operations on parts of their first argument, and which argument holds their numbers: along a dimension, the second
argument, where it is the third one."""
FROM_THE_END = ("index", "index_put")
"""Those that take negative ones, for each dimension."""


class Lookup(NamedTuple):
    """A tensor by whose numbers parts of another one are chosen."""

    numbers: Any
    first: int
    end: int


class Numbers(NamedTuple):
    """Numbers of parts in the memory of an argument."""

    argument: int
    layout: Tuple[int, ...]
    """The argument's strides, for which the size, the strides and the offset of what holds the numbers are these."""
    view: Tuple[Any, Any, int]
    first: int
    end: int

    def check(self, torch: Any, given: List[Any]) -> None:
        """Raise IndexError where a call is given others."""
        tensor = given[self.argument]
        if tensor.stride() != self.layout:
            tensor = tensor.clone()
        size, strides, offset = self.view
        low, high = torch.aminmax(tensor.as_strided(size, strides, tensor.storage_offset() + offset))
        if low < self.first or high >= self.end:
            raise IndexError("an argument holds numbers of rows that a table of {} has not".format(self.end))


def lookups(torch: Any, name: str, args: Any) -> Iterator[Lookup]:
    """Yield what an operation looks up by numbers."""
    position = LOOKUPS.get(name)
    if position is None:
        return
    if name in FROM_THE_END:
        for dimension, numbers in enumerate(args[position]):
            if numbers is not None and numbers.dtype in (torch.int64, torch.int32):
                size = int(args[0].shape[dimension])
                yield Lookup(numbers, -size, size)
    elif args[0].dim():
        yield Lookup(args[position], 0, int(args[0].shape[args[1] if position > 1 else 0]))


def numbers_of_rows(looked_up: List[Lookup], tensors: List[Any]) -> List[Numbers]:
    """Return which of a call's tensors, each with memory of its own, hold such numbers, and which they may be."""
    arguments = {tensor.untyped_storage().data_ptr(): number for number, tensor in enumerate(tensors) if tensor.numel()}
    numbers = []
    for taken, first, end in looked_up:
        number = arguments.get(taken.untyped_storage().data_ptr())
        if number is not None and taken.numel() and taken.dtype == tensors[number].dtype:
            view = (tuple(taken.shape), taken.stride(), taken.storage_offset())
            numbers.append(Numbers(number, tensors[number].stride(), view, first, end))
    return numbers
