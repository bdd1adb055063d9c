"""JAX's matrix products in a lower precision."""

from typing import Any, Mapping

from ...lever import Lever


class MatmulPrecision(Lever):
    name = "jax-matmul-precision"
    framework = "jax"
    versions = ">=0.4.1"
    summary = "the default precision of matrix products: bfloat16, or the setting 'precision'"
    changes = "number format"
    numerics = "relaxed"

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        module.config.update("jax_default_matmul_precision", str(settings.get("precision", "bfloat16")))


LEVER = MatmulPrecision()
