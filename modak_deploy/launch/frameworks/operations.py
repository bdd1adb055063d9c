"""Operations of a unit of work, however they are counted."""

from typing import Any, Dict, Mapping, Optional

BACKWARD = 3
"""Operations of a training step over those of the forward pass: two gradients for each product."""


class Tally:
    """Operations of a unit by their kind, and the layers that do them."""

    def __init__(self) -> None:
        self.operations: Dict[str, float] = {}
        self.layers = 0

    def add(self, kind: str, count: float, layers: int = 1) -> None:
        """Count a layer, or several of a kind."""
        self.operations[kind] = self.operations.get(kind, 0.0) + count
        self.layers += layers

    def features(self, batch: Optional[int], moved: Optional[int] = None) -> Dict[str, Any]:
        """Return the features of a unit whose operations are all counted; nothing where it has none.

        ``moved`` are the bytes that its layers read and write.
        """
        total = sum(self.operations.values())
        if not total:
            return {}
        described: Dict[str, Any] = {"flops": total, "layers": self.layers, **shares(self.operations)}
        if batch:
            described["flops_per_sample"] = total / batch
            if moved is not None:
                described["bytes_per_sample"] = moved / batch
        return described


def attention(queries: int, keys: int, width: int, values: int) -> int:
    """Return the operations of attention: two products, of queries with keys and of their weights with the values.

    ``width`` is that of a key and ``values`` that of a value: of one head with the ``queries`` of all of them, or of
    all heads together with their queries once. What a mask hides is counted as well.
    """
    return 2 * queries * keys * (width + values)


def shares(operations: Mapping[str, float]) -> Dict[str, float]:
    """Return the share of each kind of operations, by the name of its feature."""
    total = sum(operations.values())
    return {"mix_" + kind: count / total for kind, count in sorted(operations.items()) if count}
