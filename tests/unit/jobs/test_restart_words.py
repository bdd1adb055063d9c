"""What a candidate's command line ends with: as each shell makes it of the chosen one's."""

import subprocess
from pathlib import Path

import pytest

from modak_deploy.jobs import restarting
from modak_deploy.model.trials import RestartCandidate
from scheduler_parts import shells
from trial_parts import restart, with_trials

ODD = "a 'b' $(touch x) `id` \\ *"


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
@pytest.mark.parametrize(
    ("replaced", "arguments", "result"),
    [
        (0, ["--engine", "tvm"], ["python3", "infer.py", "two words", "--engine", "ort", "--engine", "tvm"]),
        (2, ["--engine", ODD], ["python3", "infer.py", "two words", "--engine", ODD]),
        (2, [], ["python3", "infer.py", "two words"]),
        (0, [], ["python3", "infer.py", "two words", "--engine", "ort"]),
    ],
)
def test_words(shell: list[str], replaced: int, arguments: list[str], result: list[str], tmp_path: Path) -> None:
    engine = RestartCandidate(name="other", engine="other", replaced=replaced, arguments=arguments)
    new, _ = with_trials("exit", restart(engine), tmp_path)
    words = restarting.files(new).get("restart/1.words", b"")
    assert bool(words) == bool(replaced or arguments)
    (tmp_path / "words").write_bytes(words)
    text = f"f() {{ . {tmp_path}/words; printf '%s\\n' \"$@\"; }}; f python3 infer.py 'two words' --engine ort"
    done = subprocess.run([*shell, "-c", text], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == result and not done.stderr
    assert not (tmp_path / "x").exists()
