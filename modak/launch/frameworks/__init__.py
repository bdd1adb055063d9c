"""Adapters: how levers, progress and trials get into a framework; imported when the program imports the framework."""
