"""Levers of jax, one module each."""
