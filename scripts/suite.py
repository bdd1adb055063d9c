"""Run the steps of ``make check``, ``make test`` or ``make test-all``, or those named; keep the output in .build/logs.

    suite.py check | test | all | STEP...

The three are tiers: ``check`` and ``test`` leave out what tests/left-out lists for them.

A step that this machine cannot run ends with exit code 77 and says why; what was skipped is named at the end.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LOGS = TOP / ".build" / "logs"
BIN = Path(sys.executable).parent
SLURM = str(TOP / "tests" / "real" / "slurm.sh")
CLUSTER = str(TOP / "tests" / "real" / "cluster.sh")
PROGRAMS = str(TOP / "tests" / "real" / "programs.sh")
CONTAINERS = str(TOP / "tests" / "real" / "containers.sh")
PBS = str(TOP / "tests" / "real" / "pbs.sh")
CLOUD = str(TOP / "tests" / "real" / "cloud.sh")
KUBERNETES = str(TOP / "tests" / "real" / "kubernetes.sh")
OPENSTACK = str(TOP / "tests" / "real" / "openstack.sh")
LIBVIRT = str(TOP / "tests" / "real" / "libvirt.sh")
SWIFT = str(TOP / "tests" / "real" / "swift.sh")
CANNOT = 77
PYTEST = ["pytest", "-rfEs", "--no-header", "--durations=15"]
INTEGRATION = [*PYTEST, "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder", "tests/integration", "-m"]
SHORT = "not long"
MANY = [
    "tests/unit/schedulers/test_scheduler_injection.py",
    "tests/unit/tosca/test_compose.py",
    "tests/unit/tosca/test_validate.py",
]
"""Tests with so many examples that ``make test-all`` takes a part of them."""
FORKED = [
    "tests/unit/launch/test_background.py",
    "tests/unit/launch/frameworks/pytorch/test_background.py",
]
"""Tests of work that forked processes do, in processes that no other test has used."""
UNIT = [*PYTEST, "-n", str((os.cpu_count() or 1) + 1)]
TIERS = ("check", "test", "all")
CHECKED, TESTED = ["-m", "not left_out_of_check"], ["-m", "not left_out_of_test"]
"""What the tiers' lists in tests/left-out do not have."""
ELSEWHERE = ["--ignore=tests/unit/launch"]
LAUNCH = [*(f"--ignore={path}" for path in FORKED), "tests/unit/launch"]


@dataclass
class Step:
    """One command; ``tests`` tells that pytest runs it."""

    name: str
    command: list[str]
    tests: bool = False
    tiers: tuple[str, ...] = ("test", "all")
    """What it is a part of; a step of no tier runs when it is named."""
    real: bool = False
    """Its tests wait for processes: those that fail are named and tried once more, with the others out of the way."""
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    tried_again: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


def steps() -> list[Step]:
    return [
        Step("ruff", ["ruff", "check"], tiers=TIERS),
        Step("ruff-format", ["ruff", "format", "--check"], tiers=TIERS),
        Step("mypy", ["mypy"], tiers=TIERS),
        Step("imports", ["lint-imports", "--no-logo", "--no-cache"], tiers=TIERS),
        Step("yamllint", ["yamllint", "--strict", "."], tiers=TIERS),
        Step("programs", [PROGRAMS]),
        Step("unit-quick", [*UNIT, *CHECKED, *ELSEWHERE, "tests/unit"], tests=True, tiers=("check",), real=True),
        Step("unit-launch-quick", [*UNIT, *CHECKED, *LAUNCH], tests=True, tiers=("check",), real=True),
        Step("unit-most", [*UNIT, *TESTED, *ELSEWHERE, "tests/unit"], tests=True, tiers=("test",), real=True),
        Step("unit", [*UNIT, *ELSEWHERE, "tests/unit"], tests=True, tiers=("all",), real=True),
        # In processes of its own: ansible-core replaces sys.intern, and torch.compile looks for the original.
        Step("unit-launch-most", [*UNIT, *TESTED, *LAUNCH], tests=True, tiers=("test",), real=True),
        Step("unit-launch", [*UNIT, *LAUNCH], tests=True, tiers=("all",), real=True),
        # They fork, which no process does that has imported TensorFlow or JAX: their threads make it end.
        Step("unit-fork", [*UNIT, *FORKED], tests=True, real=True),
        Step("evidence", ["python", "scripts/evidence.py", "--check", "--quick"]),
        Step("evaluation", ["python", "scripts/evidence.py", "--check"], tiers=()),
        Step("changelog", ["antsibull-changelog", "lint"]),
        Step("ansible-lint", ["ansible-lint"]),
        Step("ansible-test", ["scripts/ansible_test_sanity.sh"]),
        Step("real-slurm", [SLURM, "up"]),
        Step("real-cluster", [CLUSTER, "up"]),
        Step("integration-most", [*INTEGRATION, f"{SHORT} and {TESTED[1]}"], tests=True, tiers=("test",), real=True),
        Step("integration", [*INTEGRATION, SHORT], tests=True, tiers=("all",), real=True),
        Step("long", [*INTEGRATION, "long"], tests=True, tiers=(), real=True),
        Step("unit-long", ["env", "MODAK_EXAMPLES=all", *UNIT, *MANY], tests=True, tiers=()),
        Step("molecule-machine", ["molecule", "test", "--scenario-name", "machine", "--destroy", "never"]),
        Step("real-containers", [CONTAINERS, "up"]),
        Step("containers-quick", [*PYTEST, "-m", "smoke", "tests/containers"], tests=True, real=True),
        Step("containers", [*PYTEST, "tests/containers"], tests=True, tiers=()),
        Step("trials", [*PYTEST, "tests/trials"], tests=True, tiers=(), real=True),
        Step("real-pbs", [PBS, "up"], tiers=()),
        Step("pbs", [*PYTEST, "tests/pbs"], tests=True, tiers=()),
        Step("gridengine", [*PYTEST, "tests/gridengine"], tests=True, tiers=(), real=True),
        Step("onnx", [*PYTEST, "tests/onnx"], tests=True, tiers=(), real=True),
        Step("browser", [*PYTEST, "tests/browser"], tests=True, tiers=()),
        Step("docs", [*PYTEST, "tests/docs"], tests=True, tiers=()),
        Step("newcomer", [*PYTEST, "tests/newcomer"], tests=True, tiers=()),
        Step("galaxy", [*PYTEST, "tests/galaxy"], tests=True, tiers=()),
        Step("real-cloud", [CLOUD, "up"], tiers=()),
        Step("cloud", [*PYTEST, "tests/cloud"], tests=True, tiers=()),
        Step("real-kubernetes", [KUBERNETES, "up"], tiers=()),
        Step("kubernetes", [*PYTEST, "tests/kubernetes"], tests=True, tiers=()),
        Step("real-openstack", [OPENSTACK, "up"], tiers=()),
        Step("real-swift", [SWIFT, "up"], tiers=()),
        Step("openstack", [*PYTEST, "tests/openstack"], tests=True, tiers=()),
        Step("real-libvirt", [LIBVIRT, "up"], tiers=()),
        Step("libvirt", [*PYTEST, "tests/libvirt"], tests=True, tiers=()),
        Step("soak-cloud", ["python", "tests/soak/cloud_rounds.py"], tiers=()),
        Step("soak", ["python", "tests/soak/rounds.py"], tiers=()),
        Step("soak-cluster", ["python", "tests/soak/cluster_rounds.py"], tiers=()),
        Step("molecule-slurm", ["scripts/molecule_slurm.sh"]),
    ]


def environment() -> dict[str, str]:
    """Return the environment of all steps: the checkout's library and collection, and nothing of the user's."""
    # Some containers set PYTHONDONTWRITEBYTECODE: each process of the tests would compile the library, for 0.4 s.
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(TOP),
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "ANSIBLE_HOME": str(TOP / ".build" / "ansible"),
        "ANSIBLE_NOCOLOR": "true",
        "NO_COLOR": "1",
    }


def run(step: Step) -> None:
    print(f"{step.name} ...", end=" ", flush=True)
    execute(step, step.command, step.log)
    if step.real and step.failed:
        passed, skipped, log = step.passed, step.skipped, step.log.read_text(errors="replace")
        step.tried_again = [line for line in log.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        print(f"{step.name}, what failed once more ...", end=" ", flush=True)
        execute(step, [*step.command, "-n", "1", "--last-failed"], step.log.with_suffix(".again.log"))
        step.passed += passed
        step.skipped = skipped


def execute(step: Step, command: list[str], log: Path) -> None:
    began = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=TOP, env=environment(), stdout=output, stderr=subprocess.STDOUT)
    step.seconds += time.monotonic() - began
    count(step, done.returncode, log.read_text(errors="replace"))


def count(step: Step, code: int, text: str) -> None:
    """Fill in how the step ended; a step that is no pytest run counts as one test."""
    lines = text.splitlines()
    if step.tests:
        summary = lines[-1] if lines else ""
        numbers = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", summary)}
        step.passed = numbers.get("passed", 0)
        step.failed = numbers.get("failed", 0) + numbers.get("error", 0) + numbers.get("errors", 0)
        step.skipped = [line.removeprefix("SKIPPED ") for line in lines if line.startswith("SKIPPED [")]
        if code and not step.failed:
            step.failed = 1
    elif code == CANNOT:
        step.skipped = [lines[-1] if lines else "no reason given"]
    else:
        step.passed, step.failed = (0, 1) if code else (1, 0)
    report(step, lines)


def report(step: Step, lines: list[str]) -> None:
    if step.failed:
        print(f"FAILED after {step.seconds:.0f} s; the end of {step.log.relative_to(TOP)}:")
        print("\n".join(f"    {line}" for line in lines[-40:]))
    elif not step.passed:
        print("skipped")
    else:
        print(f"{lines[-1].strip('= ') if step.tests else 'ok'} ({step.seconds:.0f} s)", flush=True)


def is_up(part: str) -> bool:
    return subprocess.run([part, "status"], capture_output=True).returncode == 0


def chosen(names: list[str]) -> list[Step]:
    known = steps()
    if len(names) == 1 and names[0] in TIERS:
        return [step for step in known if names[0] in step.tiers]
    wanted = [step for step in known if step.name in names]
    if not names or len(wanted) < len(set(names)):
        sys.exit(f"usage: suite.py check | test | all | STEP...  with STEP one of {', '.join(s.name for s in known)}")
    return wanted


def main(names: list[str]) -> int:
    todo = chosen(names)
    LOGS.mkdir(parents=True, exist_ok=True)
    parts = [
        part
        for part in (SLURM, CLUSTER, CONTAINERS, PBS, OPENSTACK, SWIFT, LIBVIRT)
        if any(step.command[0] == part for step in todo)
    ]
    to_stop = [part for part in parts if not is_up(part)]
    began = time.monotonic()
    try:
        for step in todo:
            run(step)
    finally:
        for part in to_stop:
            subprocess.run([part, "down"])
    skipped = [f"  {step.name}: {reason}" for step in todo for reason in step.skipped]
    if skipped:
        print("Skipped:", *skipped, sep="\n")
    again = [f"  {line[:300]}" for step in todo for line in step.tried_again]
    if again:
        print("Tried a second time:", *again, sep="\n")
    passed, failed = sum(step.passed for step in todo), sum(step.failed for step in todo)
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
