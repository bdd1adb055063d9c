"""Parts for tests of the tuner: a program that says by its output how far it is."""

from typing import Any

DOCUMENT: dict[str, Any] = {
    "application": {
        "name": "solver",
        "type": "hpc",
        "executable": "./solver",
        "progress": r"step (\d+)",
        "workload": {"model": "my-solver", "unit": "iteration", "units": 100},
    },
}
