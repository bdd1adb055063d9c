"""``python -m modak_deploy.launch``: what would be passed over while the whole command runs is refused before it."""

import json
import sys
from pathlib import Path

import pytest

from modak_deploy.launch.__main__ import main


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--lever", "pytorch-chanels-last"], "--lever: no lever has the name 'pytorch-chanels-last'; did you mean"),
        (["--candidate", "nothing-like-it"], "--candidate: no lever has the name 'nothing-like-it'; --list shows"),
        (["--set", "pytorch-tf32+x"], "--set: no lever has the name 'x'"),
        (["--units", "0"], "--units: must be a whole number from 1"),
        (["--share", "nan"], "--share: must be a number from 0 to 1"),
        (["--tolerance", "2"], "--tolerance: must be a number from 0 to 1"),
    ],
)
def test_options_that_the_launcher_cannot_use_are_errors(
    options: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*options, "--", "sh", "-c", "echo ran"])
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert problem in err


def test_a_command_runs_with_options_that_it_can_use(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--lever", "pytorch-tf32", "--set", "pytorch-tf32 + pytorch-channels-last", "--units", "5"]
    assert main([*options, "--", "sh", "-c", "echo ran; exit 3"]) == 3
    assert capfd.readouterr().out == "ran\n"


def test_a_survey_tells_of_its_own_run_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The folder for records may hold what earlier runs have left."""
    entry = {"event": "surveyed", "gain": 2.0, "times": [0.1], "levers": ["a"]}
    (tmp_path / "earlier.jsonl").write_text(json.dumps(entry) + "\n")
    own = json.dumps({**entry, "gain": 3.0})
    program = f"import pathlib; pathlib.Path({str(tmp_path / 'own.jsonl')!r}).write_text({own!r})"
    assert main(["--trials", "survey", "--record", str(tmp_path), "--", sys.executable, "-c", program]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == ["3.00"]
