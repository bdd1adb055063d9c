"""Measure how long it takes to plan for many targets: many_targets.py [--targets N] [--forks N] [--against FOLDER].

First by the library: one deployment with so many targets, whose answers to the discovery are given. Then by Ansible:
modak.deploy.optimise in a play of so many hosts, whose connection runs nothing and returns such an answer, and next to
it a play of so many hosts that does nothing (ansible.builtin.debug), which is Ansible's own part. Printed are seconds
of wall time and of processor time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
LIBRARY = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from modak_deploy.model.deployment import Deployment
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.base import Completed

class Given:
    concurrent = True
    def run(self, command, *, stdin=None, timeout=None):
        return Completed(0, ANSWER, "")

ANSWER = Path(sys.argv[1]).read_text()
targets = [{"name": f"t{number}", "host": f"t{number}"} for number in range(int(sys.argv[2]))]
data = {"application": APPLICATION, "target": targets[0], "other_targets": targets[1:]}
began = time.perf_counter(), time.process_time()
deployment = Deployment.model_validate(data)
plan_deployment(deployment, Given(), search=[Path("examples/digits")], now=datetime.now(UTC))
print(time.perf_counter() - began[0], time.process_time() - began[1])
"""
CONNECTION = """
from ansible.plugins.connection import ConnectionBase
DOCUMENTATION = '''
name: given
short_description: Answers every command with the text of a file
author: the modak authors
options:
  answer:
    description: The file.
    type: path
    required: true
    vars: [{name: given_answer}]
'''
class Connection(ConnectionBase):
    transport = "given"
    has_pipelining = True
    def _connect(self):
        return self
    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        with open(self.get_option("answer"), "rb") as file:
            return 0, file.read(), b""
    def put_file(self, in_path, out_path):
        pass
    def fetch_file(self, in_path, out_path):
        pass
    def close(self):
        pass
"""
APPLICATION = {
    "name": "digits",
    "script": "train.py",
    "framework": {"name": "keras"},
    "workload": {"model": "mnist-cnn", "units": 12},
}


def timed(command: list[str], environment: dict[str, str], folder: Path) -> tuple[float, float, str]:
    """Run a command; return its wall and processor seconds, and what it printed."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{output[-3000:]}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, output


def prepare(folder: Path, targets: int) -> None:
    """Write the plays, the inventory, and the answer of this machine to the discovery."""
    script = (
        "import sys; from modak_deploy.discovery import probe_script; from modak_deploy.model.target import Target; "
    )
    script += "print(probe_script(Target(name='t'), default_python=sys.executable))"
    probe = subprocess.run(
        [sys.executable, "-c", script], env=environment_of(TOP, folder), capture_output=True, text=True
    )
    answer = subprocess.run(["/bin/sh", "-c", probe.stdout], capture_output=True, text=True, check=True).stdout
    (folder / "answer").write_text(answer)
    (folder / "library.py").write_text(LIBRARY.replace("APPLICATION,", f"{APPLICATION!r},"))
    (folder / "connection").mkdir()
    (folder / "connection" / "given.py").write_text(CONNECTION)
    variables = {"ansible_connection": "given", "given_answer": str(folder / "answer")}
    hosts = {f"t{number}": None for number in range(targets)}
    (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}))
    optimise = {
        "modak.deploy.optimise": {
            "application": APPLICATION,
            "target": {"name": "{{ inventory_hostname }}"},
            "search_paths": [str(TOP / "examples" / "digits")],
            "show": False,
        }
    }
    for name, task in (("optimise", optimise), ("debug", {"ansible.builtin.debug": {"msg": "nothing"}})):
        (folder / f"{name}.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))


def environment_of(checkout: Path, folder: Path) -> dict[str, str]:
    """Return the environment in which the modak of a checkout is used."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_DATA_HOME": str(folder / "data")}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(folder / f"collections-{checkout.name}"), "MODAK_MEASUREMENTS": ""}
    environment |= {"ANSIBLE_CONNECTION_PLUGINS": str(folder / "connection"), "ANSIBLE_HOME": str(folder / "ansible")}
    environment |= {
        "PYTHONPYCACHEPREFIX": str(folder / "compiled" / checkout.name),
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--forks", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout of modak")
    args = parser.parse_args()
    checkouts = [TOP, *([args.against.resolve()] if args.against else [])]
    playbook = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "inventory.yml", "-f", str(args.forks)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, args.targets)
        for checkout in checkouts:
            collection = folder / f"collections-{checkout.name}" / "ansible_collections" / "modak"
            collection.mkdir(parents=True)
            (collection / "deploy").symlink_to(checkout)
        for number in range(args.rounds + 1):
            for checkout in checkouts:
                environment = environment_of(checkout, folder)
                words = [sys.executable, str(folder / "library.py"), str(folder / "answer"), str(args.targets)]
                wall, processor = map(float, timed(words, environment, checkout)[2].split())
                plays = {
                    play: timed([*playbook, f"{play}.yml"], environment, folder)[:2] for play in ("optimise", "debug")
                }
                if not number:
                    continue  # the first compiles
                told = ", ".join(f"{play} {w:.1f} s (processor {p:.1f} s)" for play, (w, p) in plays.items())
                print(f"{checkout.name}: library {wall:.2f} s (processor {processor:.2f} s), {told}", flush=True)


if __name__ == "__main__":
    main()
