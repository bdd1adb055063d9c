"""Measures on the target: travels as one zip file and needs Python 3.8 and its standard library alone."""
