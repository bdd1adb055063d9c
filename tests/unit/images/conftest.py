"""A small valid Plan that each test bends to its need."""

from collections.abc import Callable
from typing import Any

import pytest

from modak_deploy.model.plan import Plan

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    def make(
        chosen: dict[str, Any] | None = None, target: dict[str, Any] | None = None, **rest: dict[str, Any]
    ) -> Plan:
        document: dict[str, Any] = {
            "schema": "modak.plan/2",
            "created": "2026-01-01T00:00:00Z",
            "name": "digits",
            "scheduler": "slurm",
            "application": {"name": "digits", "script": "train.py"},
            "target": {"name": "cluster", "type": "slurm", **(target or {})},
            "request": {},
            "job": {},
            "facts": {},
            "chosen": {
                "name": "candidate",
                "runtime": "apptainer",
                "image": {"reference": "docker://tensorflow/tensorflow:2.1.0", "digest": DIGEST},
                **(chosen or {}),
            },
            "prediction": {},
            "default": "candidate",
            "reason": "it is the only one",
            "versions": {"modak": "0", "catalogue": "0" * 64, "measurements": "0" * 64},
            "inputs": "0" * 64,
        }
        return Plan.model_validate({**document, **rest})

    return make
