"""What real sbatch, squeue and scancel make of the commands and scripts, options and values."""

import re
import secrets
import subprocess
import time
from collections import defaultdict
from typing import Any

import pytest

from modak_deploy import shell
from modak_deploy.jobs.record import parse_exit
from modak_deploy.model.job import ENDS
from modak_deploy.schedulers.detect import recognise
from modak_deploy.transport.base import Completed
from rig import Rig
from scheduler_parts import Part, make, table

ROWS = [row for row in table("options") if isinstance(row.get("slurm"), list)]
NASTY = [
    "plain",
    "two words",
    "$(touch CANARY)`touch CANARY`",
    "\n#SBATCH --nodes=4\n",
    "a\r\nb",
    "'\"\\ $HOME ${#A[@]} {{ 7 * 7 }} ; touch CANARY & | > * ?",
    "é 日本 🚀",
    "",
    "-n",
]


def login(rig: Rig, command: str, stdin: bytes = b"") -> Completed:
    words = ["ssh", "-F", str(rig.ssh_config), "slurm-login", shell.enclose(command)]
    done = subprocess.run(words, input=stdin, capture_output=True, timeout=60)
    return Completed(done.returncode, done.stdout.decode(), done.stderr.decode())


def prepared(rig: Rig, name: str, *argv: str, **more: Any) -> Part:
    tag = f"modak-{secrets.token_hex(8)}"
    part = make("slurm", argv, directory=f"{rig.home}/{name}-{tag.removeprefix('modak-')}", tag=tag, **more)
    folder = shell.quote(part.spec.directory)
    made = login(rig, f"mkdir -p {folder}/work {folder}/state && cat >{folder}/job.sh", part.script().encode())
    assert made.returncode == 0, made.stderr
    return part


def submitted(rig: Rig, part: Part) -> str:
    return part.scheduler.parse_submit(login(rig, part.scheduler.submit_command(part.spec)))


def ended(rig: Rig, part: Part, number: str) -> Any:
    limit = time.monotonic() + 60
    while True:
        state = part.scheduler.parse_status(login(rig, part.scheduler.status_command([number])), [number])[number]
        if state.state in ENDS:
            return state
        assert time.monotonic() < limit, state
        time.sleep(0.3)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_sbatch_understands_every_directive(real_slurm: Rig, row: dict[str, Any]) -> None:
    part = make("slurm", **{key: row[key] for key in ("job", "target", "resources") if key in row})
    command = part.scheduler.check_command(part.spec)
    assert command is not None
    done = login(real_slurm, command, part.script().encode())
    # The controller may have no such account or feature; but it must have been asked.
    assert done.returncode == 0 or "allocation failure: " in done.stderr
    assert not re.search(r"unrecognized|invalid option|usage", done.stderr, re.IGNORECASE)


def test_values_arrive_literally(real_slurm: Rig) -> None:
    program = 'printf "%s\\0" "$FIRST" "$@" >seen; echo "nodes $SLURM_JOB_NUM_NODES"'
    part = prepared(
        real_slurm,
        "run $(touch CANARY) 'quoted' #x",
        *("sh", "-c", program, "sh", *NASTY),
        environment={"FIRST": "".join(NASTY)},
    )
    end = ended(real_slurm, part, submitted(real_slurm, part))
    assert (end.state, end.exit_code) == ("completed", 0)
    folder = shell.quote(part.spec.directory)
    seen = login(real_slurm, f"cat {folder}/work/seen").stdout.split("\0")[:-1]
    assert seen == ["".join(NASTY), *NASTY]
    assert login(real_slurm, f"cat {folder}/output.log").stdout == "nodes 1\n"
    assert login(real_slurm, f"ls -d CANARY {folder}/CANARY {folder}/work/CANARY 2>/dev/null").stdout == ""


def test_a_job_is_found_by_its_tag_even_where_the_site_writes_the_comment(real_slurm: Rig) -> None:
    part = prepared(real_slurm, "found", "sleep", "60")
    number = submitted(real_slurm, part)
    find = part.scheduler.find_command(part.spec.tag, part.spec.name)
    assert part.scheduler.parse_find(login(real_slurm, find), part.spec.tag) == [number]
    assert login(real_slurm, f"scontrol update job={number} comment=other").returncode == 0
    assert part.scheduler.parse_find(login(real_slurm, find), part.spec.tag) == [number]
    assert login(real_slurm, part.scheduler.cancel_command([number, "999999"])).returncode == 0
    assert ended(real_slurm, part, number).state == "cancelled"
    record = parse_exit(login(real_slurm, f"cat {part.spec.directory}/state/exit").stdout)
    assert record is None or record.state == "terminated"


def test_a_held_job_and_an_unknown_one_in_one_answer(real_slurm: Rig) -> None:
    part = prepared(real_slurm, "held", "true", job={"begin": "2035-01-01T00:00"})
    number = submitted(real_slurm, part)
    ids = [number, "999999"]
    states = part.scheduler.parse_status(login(real_slurm, part.scheduler.status_command(ids)), ids)
    assert {name: (state.state, state.reason) for name, state in states.items()} == {number: ("queued", "BeginTime")}
    login(real_slurm, f"scontrol hold {number}")
    states = part.scheduler.parse_status(login(real_slurm, part.scheduler.status_command(ids)), ids)
    assert states[number].state == "held"
    login(real_slurm, part.scheduler.cancel_command([number]))
    assert ended(real_slurm, part, number).state == "cancelled"
    alone = part.scheduler.status_command(["999999"])
    assert part.scheduler.parse_status(login(real_slurm, alone), ["999999"]) == {}


def test_ranks_get_the_environment_and_the_cores(real_slurm: Rig) -> None:
    program = 'echo "$SLURM_PROCID $SLURMD_NODENAME $OMP_NUM_THREADS $SLURM_CPUS_PER_TASK $WORDS"'
    part = prepared(
        real_slurm,
        "ranks",
        *("sh", "-c", program),
        resources={"nodes": 2, "ranks": 3, "ranks_per_node": 2, "threads": 2},
        environment={"WORDS": "a b"},
    )
    assert ended(real_slurm, part, submitted(real_slurm, part)).state == "completed"
    lines = sorted(login(real_slurm, f"cat {part.spec.directory}/output.log").stdout.splitlines())
    assert lines == ["0 n1 2 2 a b", "1 n1 2 2 a b", "2 n2 2 2 a b"]


def test_it_is_recognised(real_slurm: Rig) -> None:
    found = recognise(defaultdict(str, sbatch=real_slurm.ssh("sbatch --version")))
    assert found is not None
    assert found.name == "slurm"
    assert found.version
