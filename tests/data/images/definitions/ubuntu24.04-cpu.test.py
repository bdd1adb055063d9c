"""Checks that this image holds what its labels say. It runs on Python 3.5 and later."""
import importlib
import subprocess
import sys

PYTHON = "3.12."
MODULES = {}
OUTPUTS = []
CHECKS = [
]

faults = []
if PYTHON is not None and not sys.version.startswith(PYTHON):
    faults.append("Python is %s and should be %s" % (sys.version.split()[0], PYTHON))
for name, version in sorted(MODULES.items()):
    module = importlib.import_module(name)
    found = str(getattr(module, "__version__", "")).split("+")[0]
    if version is not None and found != version:
        faults.append("%s is %s and should be %s" % (name, found, version))
for command, version in OUTPUTS:
    found = subprocess.check_output(command).decode("utf-8", "replace")
    if version not in found:
        faults.append("%s does not say that it is %s" % (command[0], version))
for what, check in CHECKS:
    if not check():
        faults.append("this does not hold: %s" % what)
if faults:
    sys.exit("; ".join(faults))
print("the image holds what it should")
