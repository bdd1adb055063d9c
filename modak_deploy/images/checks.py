"""The test that an image carries: a Python program that compares what is inside with what its entry says."""

import json
import re
from collections.abc import Iterator

from modak_deploy.catalogue.recipe import Check, load_checks
from modak_deploy.model.base import specifier_set
from modak_deploy.model.image import ImageEntry

_PROGRAM = '''"""Checks that this image holds what its labels say. It runs on Python 3.5 and later."""
import importlib
import subprocess
import sys

PYTHON = {python}
MODULES = {modules}
OUTPUTS = {outputs}
CHECKS = [
{checks}]

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
'''
_MPI_VERSION = {"mpich": ["mpichversion"], "openmpi": ["ompi_info", "--version"]}


def test_program(entry: ImageEntry) -> str:
    """Return the text of the test; it imports every package that decisions rest on."""
    checks = load_checks()
    modules = {
        checks.modules.get(name, name): None if name in checks.versionless else version
        for name, version in entry.packages.items()
    }
    outputs = [[_MPI_VERSION[entry.mpi.family], entry.mpi.version]] if entry.mpi else []
    lines = [f"    ({json.dumps(check.expression)}, lambda: {check.expression}),\n" for check in _applying(entry)]
    minor = ".".join((entry.python or "").split(".")[:2])
    return _PROGRAM.format(
        python=_literal(f"{minor}." if minor else None),
        modules=_literal(modules),
        outputs=_literal(outputs),
        checks="".join(lines),
    )


def _applying(entry: ImageEntry) -> Iterator[Check]:
    for check in load_checks().checks:
        when = check.when
        if when.framework not in (None, entry.framework) or when.accelerator not in (None, entry.accelerator):
            continue
        if not set(when.compilers) <= set(entry.compilers):
            continue
        if when.version is not None and (entry.version is None or entry.version not in specifier_set(when.version)):
            continue
        yield check


def _literal(value: object) -> str:
    return re.sub(r"\bnull\b", "None", json.dumps(value, indent=4, sort_keys=True))
