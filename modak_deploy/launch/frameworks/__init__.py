"""Adapters: how levers, progress and trials get into a framework; imported when the program imports the framework."""

MODULES = {
    "pytorch": "torch",
    "keras": "keras",
    "tensorflow": "tensorflow",
    "onnxruntime": "onnxruntime",
    "jax": "jax",
    "sklearn": "sklearn",
}
"""Module whose import brings a framework's adapter in; ``launcher_module`` of the engines, which do not travel."""
KEEPERS = ("jax",)
"""Frameworks that compile whatever levers are on, and whose adapters keep that; ``keeps_compiled`` of the engines."""
