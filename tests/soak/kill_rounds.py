#!/usr/bin/env python3
"""Deploy a job, kill the deployer with SIGKILL at a random moment, deploy again: exactly one job, every time.

    python tests/soak/kill_rounds.py --rounds 200
    python tests/soak/kill_rounds.py --rounds 200 --ssh-config .build/real/client/ssh_config
    python tests/soak/kill_rounds.py --rounds 50 --ansible

The deployer is a Python process that uses the library, or with --ansible a play with modak.deploy.batch_job.

Without --ssh-config the jobs are processes of this machine; with it they go over ssh to the Slurm behind the host
slurm-login. In every second round the shell that carries out the step on the target is killed as well, on this machine.
Exit code 1 when a round ended with another number of jobs than one.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from jobplans import plan  # noqa: E402
from modak.jobs.control import Jobs  # noqa: E402
from modak.jobs.settings import Patience  # noqa: E402
from modak.model.plan import Plan  # noqa: E402
from modak.transport.base import Transport  # noqa: E402
from modak.transport.local import LocalTransport  # noqa: E402
from modak.transport.ssh import SshTransport  # noqa: E402

PATIENCE = replace(Patience(), settle=3.0, lost=2.0)


def transport_of(ssh_config: str | None) -> Transport:
    return SshTransport("slurm-login", config=Path(ssh_config)) if ssh_config else LocalTransport()


def deploy(plan_file: str, ssh_config: str | None) -> None:
    """Deploy the Plan as a process of its own, which says when it begins and when it is done."""
    deployed = Plan.model_validate_json(Path(plan_file).read_text())
    jobs = Jobs(transport_of(ssh_config), patience=PATIENCE)
    print("begin", flush=True)
    present = jobs.present(deployed)
    (result,) = jobs.wait([present])
    sys.exit(result.state != "completed")


def start(plan_file: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Start a deployer, and return when it has begun to deploy."""
    if options.ansible:
        play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"name": "begin", **_task(plan_file)}]}
        playbook = plan_file.with_suffix(".yml")
        playbook.write_text(json.dumps([play]))
        command = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(playbook)]
    else:
        config = ["--ssh-config", options.ssh_config] if options.ssh_config else []
        command = [sys.executable, __file__, "--deploy", str(plan_file), *config]
    collections = {
        "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
        "PYTHONPATH": str(TOP),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **collections}
    )
    while process.stdout is not None and "begin" not in (line := process.stdout.readline()) and line:
        pass
    return process


def _task(plan_file: Path) -> dict[str, object]:
    arguments = {"plan": json.loads(plan_file.read_text()), "results": str(plan_file.with_suffix(".results"))}
    return {"modak.deploy.batch_job": arguments}


def descendants(pid: int) -> list[int]:
    """Return the processes below one, nearest first; a step and its job have no parent among them any more."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def is_shell(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() in ("sh", "dash", "bash")
    return False


def kill(process: subprocess.Popen[str], *, step_too: bool) -> None:
    """Kill the deployer and its workers, and in every second round the shell of the step under way."""
    below = descendants(process.pid)
    for pid in [process.pid, *(pid for pid in below if step_too or not is_shell(pid))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def one_round(number: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    ssh_config = options.ssh_config
    name = f"round{number}-{os.getpid()}"
    trace = f"{'$HOME' if ssh_config else folder}/{name}.trace"
    line = f'echo run >>"{trace}"; sleep 0.3'
    workspace = Path("~/.modak") if ssh_config else folder / "space"
    deployed = plan(["sh", "-c", line], workspace, name=name, scheduler="slurm" if ssh_config else "process")
    plan_file = folder / f"{name}.json"
    plan_file.write_text(deployed.to_json())
    process = start(plan_file, options)
    moment = random.uniform(0, options.longest)
    time.sleep(moment)
    kill(process, step_too=number % 2 == 1)
    again = start(plan_file, options)
    again.communicate(timeout=120)
    transport = transport_of(ssh_config)
    runs = transport.run(f'cat "{trace}"; rm -f "{trace}"').stdout.count("run")
    jobs = Jobs(transport, patience=PATIENCE)
    jobs.absent(deployed)
    return {"round": number, "killed_after": round(moment, 4), "runs": runs, "exit": again.returncode}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeat the moments of an earlier soak")
    parser.add_argument("--longest", type=float, default=0.6, help="latest moment to kill, in seconds after the begin")
    parser.add_argument("--ssh-config", help="configuration that knows the host slurm-login")
    parser.add_argument("--ansible", action="store_true", help="deploy by a play, on this machine")
    parser.add_argument("--deploy", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.deploy:
        deploy(arguments.deploy, arguments.ssh_config)
        return 0
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    random.seed(seed)
    print(f"seed {seed}", file=sys.stderr)
    faults = 0
    with tempfile.TemporaryDirectory(prefix="modak-soak.") as folder:
        for number in range(arguments.rounds):
            row = one_round(number, Path(folder), arguments)
            good = (row["runs"], row["exit"]) == (1, 0)
            faults += not good
            print(json.dumps({**row, "good": good}), flush=True)
    print(f"{arguments.rounds} rounds, {faults} with another number of jobs than one", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
