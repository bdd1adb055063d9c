"""What targets report of jobs and of themselves: records, folders, a scheduler's output, discovery, text of a log."""

import json
import re
from pathlib import Path
from random import Random

import yaml
from generate import DATA, mutated, text
from scripted import Parts, Scripted

from jobplans import requested
from modak_deploy import reported
from modak_deploy.discovery import parse_probe
from modak_deploy.errors import ModakError
from modak_deploy.jobs import staging
from modak_deploy.jobs.job import Job, folder_name, specification
from modak_deploy.jobs.status import of_job, result
from modak_deploy.model.target import Target
from modak_deploy.schedulers import registry
from modak_deploy.terminal import excerpt, lines, visible
from modak_deploy.transport.base import Completed

STATES = yaml.safe_load((DATA / "schedulers" / "states.yaml").read_text())
PROBES = sorted((DATA / "discovery" / "parts").rglob("*"))
START = "tag=modak-1\nstart=1700000000.5\njob=17\nhost=n1\n"
EXIT = (
    "tag=modak-1\nstate=completed\ncode=0\nsignal=\njob=17\nhost=n1\nstart=1700000000.5\n"
    "end=1700000009\nfinished=1700000010\n"
)


def _safe(error: Exception) -> None:
    assert visible(str(error)) == str(error), f"an error that no terminal may see: {error!r}"


def job_folder(random: Random, folder: Path) -> None:
    """Any answer to the look at a job's folder: what it says is within bounds, or one sentence."""
    made = requested(["true"], Path(random.choice(["/space", "~/.modak"])))
    home = random.choice(["", "/home/me", text(random)])
    workspace = made.target.workspace
    directory = f"{home if '~' in workspace else ''}{workspace.removeprefix('~')}/runs/{folder_name(made)}"

    def vary(sample: str) -> str:
        return mutated(random, sample) if random.random() < 0.3 else sample

    def look() -> Parts:
        return [
            ("directory", vary(directory)), ("exists", ""), ("now", vary("1700000000\n")), ("tag", vary(made.tag)),
            ("intent", vary("token 1700000000 host\nfound\n")), ("id", vary("17\n")), ("start", vary(START)),
            (vary("exit"), vary(EXIT)), (f"exit.{text(random, 2)}", EXIT), ("files", vary(f"{'0' * 64} 1 plan.json\n")),
        ]  # fmt: skip

    try:
        place = staging.look(Scripted({"part directory": look}, stderr=text(random)), made, ["plan.json"])
        spec = specification(made, place.directory)
        job = Job(place.records.id_text or "17", spec, made, registry.get("process"), place.now)
        ended = result(job, of_job(job, None, place.records), place.records)
    except ModakError as error:
        _safe(error)
        return
    assert re.fullmatch(r"/[^\x00-\x1f]*/runs/probe-[0-9a-f]{16}", place.directory)
    assert visible(ended.id + (ended.host or "")) == ended.id + (ended.host or "")
    assert ended.seconds is None or 0 <= ended.seconds < 1e10
    assert type(ended).model_validate_json(ended.model_dump_json()) == ended


def scheduler_output(random: Random, folder: Path) -> None:
    """Any output of a scheduler's commands, as its parsers are given it."""
    case = random.choice(STATES)
    scheduler = registry.get(case["scheduler"])
    sample = case["text"] if "text" in case else (DATA / "schedulers" / case["file"]).read_text()
    out, err = reported.plain(mutated(random, sample)), reported.plain(text(random))
    done = Completed(random.choice([0, 0, 0, 1, 124, 255]), out, err)
    for parse in (
        lambda: scheduler.parse_status(done, [case["id"]]),
        lambda: scheduler.parse_find(done, "modak-0123456789abcdef"),
        lambda: scheduler.parse_submit(done),
    ):
        try:
            found = parse()
        except ModakError as error:
            _safe(error)
            continue
        assert visible(repr(found)) == repr(found)


def discovery(random: Random, folder: Path) -> None:
    """Any answer to the discovery: facts, or one sentence."""
    parts = [file for file in PROBES if file.is_file()]
    chosen = [random.choice(parts) for _ in range(random.randint(1, 8))]
    answer = "".join(f"@@modak:{file.stem}\n{mutated(random, file.read_text(errors='replace'))}\n" for file in chosen)
    for part in ("host", "nproc", "meminfo", "limits", "df-home", "nvidia-smi", "rocm-smi", "python", "packages"):
        if random.random() < 0.3:
            answer += f"@@modak:{part}\n{text(random)}\n"
    kind = random.choice(["machine", "slurm", "torque", "openpbs", None])
    try:
        facts = parse_probe(f"{answer}@@modak:end\n", Target(name="t", type=kind) if kind else None)  # type: ignore[arg-type]
    except ModakError as error:
        _safe(error)
        return
    dumped = json.dumps(facts.model_dump(mode="json"), ensure_ascii=False)
    assert visible(dumped) == dumped
    dumped.encode()


def terminal(random: Random, folder: Path) -> None:
    """Any text: no control character is left, JSON stays what it was, and a log has no forged line."""
    sample = text(random, 20)
    shown = visible(sample)
    assert visible(shown) == shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", shown)
    shown.encode()
    # Two halves of a surrogate pair side by side are one character to JSON, and two to Python.
    whole = sample.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    document = json.dumps({whole: whole}, ensure_ascii=False)
    assert json.loads(visible(document)) == json.loads(document)
    assert "\n" not in excerpt(sample) and len(excerpt(sample, 50)) <= 53
    assert all("\n" not in line and "\r" not in line for line in lines(sample))
    plain = reported.plain(sample)
    assert visible(plain) == plain
    assert all(char.isascii() for char in plain if char.isdigit())


CASES = {
    "job folder": job_folder,
    "scheduler output": scheduler_output,
    "discovery": discovery,
    "terminal": terminal,
}
