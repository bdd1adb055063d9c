"""Levers of onnxruntime, one module each."""
