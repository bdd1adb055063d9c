"""application.progress: what is permitted, and what the awk of a node makes of it."""

import os
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from modak_deploy.model.progress import ProgressPattern, pieces

ADAPTER: TypeAdapter[str] = TypeAdapter(ProgressPattern)
AWKS = [["mawk"], ["gawk"], ["busybox", "awk"], ["original-awk"]]
CASES = [
    (r"step (\d+)", "step 12 of 100", "12 "),
    (r"(\d+)/100", "123/100 [00:10]", "123 "),
    (r"Epoch (\d+)/\d+ .*loss=([0-9.e+-]+)", "Epoch 3/10 10it/s loss=1.25e-03, acc=0.9", "3 1.25e-03"),
    (r"(?:step|iter) +(\d+)", "  iter   7", "7 "),
    (r"\[(\d+)\]\s*=\s*([\w.]+)", "[5] = NaN", "5 nan"),
    (r"residual (\d+): ([-+0-9.e]+)", "residual 8: -1.5e+2", "8 -1.5e+2"),
    (r"a*(\d+)", "aaa42", "42 "),
    (r"step (\d+)", "nothing", ""),
    (r"step (.*)", "step by step", ""),
    (r"step (\d+)", "step 3000000000", "3000000000 "),
    (r"x(\d*)y", "xy", ""),
    (r"100%\|.*\| (\d+)/", "100%|####| 44/44", "44 "),
]


@pytest.mark.parametrize("awk", AWKS, ids=" ".join)
@pytest.mark.parametrize(("pattern", "line", "expected"), CASES)
def test_units_and_values_are_captured(tmp_path: Path, awk: list[str], pattern: str, line: str, expected: str) -> None:
    if shutil.which(awk[0]) is None:
        pytest.skip(f"{awk[0]} is not installed")
    (tmp_path / "pattern").write_text("".join(f"{piece}\n" for piece in pieces(ADAPTER.validate_python(pattern))))
    program = resources.files("modak_deploy.jobs").joinpath("sh", "progress.awk")
    done = subprocess.run(
        [*awk, "-v", "mode=last", "-f", str(program)],
        input=f"before\n{line}\nafter\n",
        env={**os.environ, "modak_pattern": str(tmp_path / "pattern")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.rstrip("\n") == expected and not done.stderr


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("step", "one group"),
        (r"(\d+", "not a regular expression"),
        (r"(?P<unit>\d+)", "only (?:...)"),
        (r"(\d+)|x", "alternatives"),
        (r"(\d+)+", "repeated"),
        (r"(\d{3})", "'{' is not supported"),
        (r".*?(\d+)", "repetitions"),
        (r"\b(\d+)", "not supported"),
        (r"([[:digit:]]+)", "classes"),
        (r"(a)(b)(c)", "at most"),
        ("x" * 500, "at most 400"),
    ],
)
def test_other_patterns_are_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(problem)):
        ADAPTER.validate_python(pattern)
