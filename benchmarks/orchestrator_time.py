"""What xOpera adds to deploying and undeploying a job over plain ansible-playbook: orchestrator_time.py [--rounds N].

The same small job on this machine, deployed and undeployed by each, interleaved; printed are medians in seconds, of the
whole command and of processor time. Run it on an otherwise idle machine, with the tests' dependencies:

    python benchmarks/orchestrator_time.py
"""

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from modak_deploy.tosca.library import folder as library  # noqa: E402
from sites import user_environment  # noqa: E402

TINY = TOP / "tests" / "data" / "applications" / "tiny.py"
BLUEPRINT = TOP / "tests" / "data" / "blueprints" / "tiny.yaml"


def prepare(place: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Write what each needs; return by its name how the job is deployed and undeployed."""
    shutil.copytree(library(), place / "modak")
    shutil.copy(TINY, place)
    shutil.copy(BLUEPRINT, place)
    polling = {"first": 0.5, "maximum": 2.0}
    document = {
        "application": {"name": "tiny", "type": "hpc", "script": "tiny.py", "metrics": "metrics.json"},
        "target": {"name": "machine", "workspace": str(place / "by-ansible"), "polling": polling},
        "job": {"wall_time": "5m"},
        "results": str(place / "results-ansible"),
    }
    (place / "deploy.yml").write_text(yaml.safe_dump(document))
    inputs = {"workspace": str(place / "by-opera"), "results": str(place / "results-opera")}
    (place / "inputs.yaml").write_text(yaml.safe_dump(inputs))
    play = ["ansible-playbook", "-e", "deployment=deploy.yml"]
    return {
        "ansible-playbook": ([*play, "modak.deploy.deploy"], [*play, "modak.deploy.undeploy"]),
        "opera": (["opera", "deploy", "-i", "inputs.yaml", "tiny.yaml"], ["opera", "undeploy"]),
    }


def seconds(command: list[str], place: Path) -> tuple[float, float]:
    """Run a command; return its seconds, and those of the processor that it and its children used."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command,
        cwd=place,
        env=user_environment(TOP / ".collections", place / "ansible"),
        capture_output=True,
        text=True,
    )
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[tuple[float, ...]]] = {"ansible-playbook": [], "opera": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        commands = prepare(place)
        for number in range(rounds + 1):
            for tool in sorted(commands, reverse=number % 2 == 1):
                deploy, undeploy = commands[tool]
                figures = *seconds(deploy, place), *seconds(undeploy, place)
                shutil.rmtree(place / f"results-{tool.removesuffix('-playbook')}")
                if number:  # the first round warms caches
                    taken[tool].append(figures)
    print("| | deploy | of the processor | undeploy | of the processor |\n| --- | --- | --- | --- | --- |")
    more = [tuple(o - a for a, o in zip(*pair, strict=True)) for pair in zip(*taken.values(), strict=True)]
    for words, rows in (*taken.items(), (f"what opera adds, in {rounds} rounds", more)):
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"| {words} | {' | '.join(f'{median:.2f} s' for median in medians)} |")


if __name__ == "__main__":
    main()
