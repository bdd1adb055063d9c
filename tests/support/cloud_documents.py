"""Documents of jobs on clouds."""

from pathlib import Path
from typing import Any


def probe(folder: Path, target: str, cloud: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose job appends a line to a file that comes back."""
    return {
        "application": {
            "name": "probe",
            "type": "hpc",
            "executable": "sh",
            "arguments": ["-c", "echo ran >>out.txt; cat /run/modak-ready && echo on an instance"],
            "outputs": ["out.txt"],
        },
        "target": {
            "name": target,
            "type": "cloud",
            "user": "root",
            "private_key": str(folder / "id"),
            "workspace": "~/.modak",
            "polling": {"first": 0.5, "maximum": 1},
            "cloud": cloud,
        },
        "job": {"wall_time": "10m"},
    }
