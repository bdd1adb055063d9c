"""Python's own way to open a file, as it was when the launcher started.

The tests of a program put another in its place, which counts how often it is asked, or knows of a few files alone.
"""

open_file = open
"""``open`` itself."""
