"""Levers, one folder for each framework and one module for each lever."""
