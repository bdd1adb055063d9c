"""What a benchmark's driver wrote is read within bounds that it keeps itself."""

import math

import pytest

from modak_deploy.evidence.driver.runs import seconds
from modak_deploy.evidence.protocol import Repeat
from modak_deploy.model.base import LONGEST_SECONDS


def repeat(wall: float) -> Repeat:
    return Repeat.model_validate({"name": "default", "block": 0, "time": 1, "load": 0.1, "wall": wall, "cpu": 1.0})


def test_the_driver_bounds_times_as_models_do() -> None:
    below = math.nextafter(LONGEST_SECONDS, 0)
    assert seconds(below)
    assert not any(seconds(value) for value in (LONGEST_SECONDS, 10**400, math.nan, 0, True))
    assert repeat(below).wall == below
    with pytest.raises(ValueError, match="less than or equal to"):
        repeat(math.nextafter(LONGEST_SECONDS, math.inf))
