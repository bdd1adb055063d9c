"""Ansible forks a process for each host: what they all need is read before, once."""

import subprocess
import sys
from pathlib import Path

COLLECTIONS = Path(__file__).resolve().parents[3] / ".collections"
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import ansible_collections.modak.deploy.plugins.action.optimise
from pathlib import Path
import modak.planning
before = set(sys.modules)
def refuse(*arguments, **options):
    raise AssertionError(f"a file is opened: {arguments}")
Path.open = Path.read_bytes = Path.read_text = refuse
catalogue = modak.planning.preload()
print(len(catalogue.levers) > 0, len(catalogue.images) > 0, set(sys.modules) - before)
"""


def test_optimise_reads_catalogue_and_measurements_when_it_is_loaded() -> None:
    command = [sys.executable, "-c", CODE, str(COLLECTIONS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True set()\n"
