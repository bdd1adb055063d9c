"""Tuning as jobs of their own: a search over combinations of levers, measured on the target."""
