"""Run a Python script under a Keras dtype policy: keras_dtype_policy.py SCRIPT [ARGUMENT ...].

The policy's name comes from the environment variable KERAS_DTYPE_POLICY; the script itself stays as it is.
"""

import os
import runpy
import sys
from pathlib import Path

import keras

keras.config.set_dtype_policy(os.environ["KERAS_DTYPE_POLICY"])
del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
