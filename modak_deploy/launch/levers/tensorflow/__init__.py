"""Levers of tensorflow, one module each."""
