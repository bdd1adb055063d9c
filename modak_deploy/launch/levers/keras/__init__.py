"""Levers of keras, one module each."""
