"""What the suite makes of the output of its steps, and which Python the set-up takes."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rig import TOP


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("suite", TOP / "scripts" / "suite.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "suite", module)
    spec.loader.exec_module(module)
    return module


SKIP = "SKIPPED [2] tests/integration/test_x.py:3: it takes root"


@pytest.mark.parametrize(
    ("tests", "code", "text", "expected"),
    [
        (True, 0, "...\n7 passed in 1.0s", (7, 0, [])),
        (True, 0, f"...\n{SKIP}\n5 passed, 2 skipped in 1.0s", (5, 0, [SKIP.removeprefix("SKIPPED ")])),
        (True, 1, "...\n1 failed, 7 passed, 2 errors in 1.0s", (7, 3, [])),
        (True, 4, "ERROR: file or directory not found: tests/none", (0, 1, [])),
        (True, 2, "", (0, 1, [])),
        (False, 0, "fine", (1, 0, [])),
        (False, 3, "oh", (0, 1, [])),
        (False, 77, "it takes\nroot", (0, 0, ["root"])),
        (False, 77, "", (0, 0, ["no reason given"])),
    ],
)
def test_how_a_step_ended(
    suite: ModuleType, tests: bool, code: int, text: str, expected: tuple[int, int, list[str]]
) -> None:
    step = suite.Step("x", ["x"], tests=tests)
    suite.count(step, code, text)
    assert (step.passed, step.failed, step.skipped) == expected


def test_an_unknown_step_is_told(suite: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"(?s)usage.*ansible-lint"):
        suite.chosen(["unti"])


@pytest.mark.parametrize(("python", "code"), [(sys.executable, 0), ("/nonexistent/python", 1), ("/bin/false", 1)])
def test_the_python_that_is_asked_for_is_tried(python: str, code: int) -> None:
    environment = {"PYTHON": python, "PATH": "/usr/bin:/bin"}
    script = TOP / "scripts" / "find-python.sh"
    done = subprocess.run([script], env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert python in done.stdout + done.stderr


@pytest.mark.parametrize(("tier", "ending"), [("check", "-quick"), ("test", "-most")])
def test_make_test_all_leaves_nothing_out_that_another_tier_runs(suite: ModuleType, tier: str, ending: str) -> None:
    less, everything = ({step.name for step in suite.chosen([name])} for name in (tier, "all"))
    assert {name.removesuffix(ending) for name in less} <= everything
    assert any(name.endswith(ending) for name in less)


@pytest.mark.parametrize(("ending", "tier"), [("-quick", "check"), ("-most", "test")])
def test_only_lists_make_a_tier_quicker(suite: ModuleType, ending: str, tier: str) -> None:
    """A step that stands for another one runs the same command with one more choice of tests."""
    known = {step.name: step for step in suite.steps()}
    for name in (name.removesuffix(ending) for name in known if name.endswith(ending) and name != "containers-quick"):
        whole, part = (" ".join(known[which].command) for which in (name, name + ending))
        assert part.replace(f" and not left_out_of_{tier}", "").replace(f"-m not left_out_of_{tier} ", "") == whole


@pytest.mark.parametrize("path", sorted((TOP / "tests" / "left-out").glob("*.txt")), ids=lambda path: path.stem)
def test_what_is_left_out_is_there(path: Path) -> None:
    texts = {path.relative_to(TOP): path.read_text(encoding="utf-8") for path in (TOP / "tests").rglob("*.py")}
    functions = set(re.findall(r"def (test_\w+)\(", "".join(texts.values())))  # some are inherited from another file
    for name in path.read_text(encoding="utf-8").split():
        file, *_, function = name.split("::")
        assert Path(file) in texts and function in functions, f"{name} is gone: run scripts/left_out.py"
