"""Run a Python script after importing a module that hooks itself in: import_first.py SCRIPT [ARGUMENT ...].

The module's name comes from the environment variable IMPORT_FIRST; the script itself stays as it is.
"""

import importlib
import os
import runpy
import sys
from pathlib import Path

importlib.import_module(os.environ["IMPORT_FIRST"])
del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
