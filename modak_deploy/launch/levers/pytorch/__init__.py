"""Levers of pytorch, one module each."""
