"""Levers of sklearn, one module each."""
