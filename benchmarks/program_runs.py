"""Deploy one of the programs as a user does, by the playbook or the command, and return what its job took."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from program_rows import PROGRAMS, Row

from modak_deploy.launch import bundle
from modak_deploy.launch.config import VARIABLE, VERSION

TOP = Path(__file__).resolve().parent.parent
PLAY_SECONDS = 120
"""Time for the playbook itself, beside the job's."""
CACHE = "cache"
"""The folder of a workspace that outlives its jobs."""
MODAK = (sys.executable, "-m", "modak_deploy.cli")


def launched(folder: Path, trials: Mapping[str, Any]) -> dict[str, str]:
    """Return a program's variables under the launcher, whose files and ``record`` are in the folder."""
    bundle.write_folder(str(folder / "path"))
    config = {"version": VERSION, "record": str(folder / "record"), "trials": dict(trials)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return {VARIABLE: str(folder / "config.json"), "PYTHONPATH": str(folder / "path")}


@dataclass(frozen=True)
class Workplace:
    """The folder that holds the programs, the stores and the results of one table."""

    folder: Path

    def program(self, row: Row) -> Path:
        """Return the program's folder, built where it has to be."""
        copy = self.folder / "programs" / row.folder
        if not copy.is_dir():
            shutil.copytree(PROGRAMS / row.folder, copy)
        if row.build:
            (source,) = copy.glob("*.c")
            if not source.with_suffix("").exists():
                command = [*row.build, "-o", source.stem, source.name, "-lm"]
                subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True)
        return copy

    def environment(self, store: str) -> dict[str, str]:
        """Return the environment of a user who has this checkout, an empty home for data, and the named store."""
        collections = TOP / ".collections"
        link = collections / "ansible_collections" / "modak" / "deploy"
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(TOP)
        stores = self.folder / "stores"
        stores.mkdir(parents=True, exist_ok=True)
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MODAK_"))},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(TOP),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_NOCOLOR": "true",
            "XDG_DATA_HOME": str(self.folder / "data" / store),
            "MODAK_MEASUREMENTS": f"sqlite:///{stores / store}.sqlite",
            "MODAK_FITTING": "manual",  # what ships has measurements of these programs: a model would know them
        }


def deploy(
    place: Workplace,
    row: Row,
    units: int,
    request: dict[str, Any],
    *,
    run: str,
    store: str,
    record: bool,
    limit: float,
    starter: Sequence[str] = (),
    short: bool = False,
    keeps: bool = False,
) -> dict[str, Any]:
    """Run the program by ``modak.deploy.deploy`` and return its times; ``state`` says how it ended.

    A ``short`` one is deployed by ``modak deploy``, which does the same and starts a second sooner. ``run`` names a
    workspace and a folder of results of its own, so that no job is taken for another one, and ``limit`` is the job's
    wall time in seconds. Where it ``keeps`` the cache, that of its store's earlier deployments lies in the workspace,
    as it would in a user's, and what it adds is there for the next one.
    """
    folder = place.folder / "runs" / run
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    document = row.document(units, starter)
    place_of = {} if "configuration" in request else {"runtimes": ["native"]}
    space, kept = folder / "space", place.folder / "caches" / store
    if keeps and kept.is_dir():
        space.mkdir(mode=0o700)
        kept.rename(space / CACHE)
    document["request"] = {"objective": "time", **place_of, **request}
    document["target"]["workspace"] = str(space)
    document["target"]["polling"] = {"first": 0.3, "maximum": 2.0}
    document["job"]["wall_time"] = max(10, int(limit))
    path = place.program(row) / f"{run.replace('/', '-')}.yml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    results = folder / "results"
    if short:
        command = [*MODAK, "deploy", str(path), "--results", str(results), "--record" if record else "--no-record"]
    else:
        command = _play("deploy", path, {"results": str(results), **({} if record else {"record": False})})
    environment = place.environment(store)
    began, load = time.time(), os.getloadavg()[0]
    text, code = _run(command, environment, folder, limit + PLAY_SECONDS, _play("undeploy", path))
    (folder / "play.log").write_text(text, encoding="utf-8")
    entry = {"state": "failed", "units": units, "load": round(load, 2), "play": round(time.time() - began, 2)}
    entry.update(_results(results / document["application"]["name"]))
    if code != 0:
        entry.update(state="failed", reason=_reason(text) or f"the deployment ended with {code}")
    if keeps and (space / CACHE).is_dir():
        kept.parent.mkdir(exist_ok=True)
        (space / CACHE).rename(kept)
    shutil.rmtree(space, ignore_errors=True)
    return entry


def _play(name: str, document: Path, variables: dict[str, Any] | None = None) -> list[str]:
    given = json.dumps({"deployment": str(document), **(variables or {})})
    return [str(Path(sys.executable).parent / "ansible-playbook"), f"modak.deploy.{name}", "-e", given]


def _run(
    command: Sequence[str], environment: dict[str, str], folder: Path, seconds: float, undo: Sequence[str]
) -> tuple[str, int]:
    """Run a deployment to its end; where it is interrupted or takes too long, the job is cancelled as well."""
    with subprocess.Popen(
        command, env=environment, cwd=folder, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=seconds)
            return text, process.returncode
        except BaseException as error:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            subprocess.run(undo, env=environment, cwd=folder, check=False, capture_output=True, timeout=PLAY_SECONDS)
            if isinstance(error, subprocess.TimeoutExpired):
                return "the deployment took too long", 124
            raise


def _results(folder: Path) -> dict[str, Any]:
    """Return what the results say: times, what ran, what was tried."""
    try:
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    metrics = job.get("metrics") or {}
    tuning, restart = job.get("tuning") or {}, job.get("restart") or {}
    total = job.get("seconds")
    counted = tuning.get("counted") or []
    before = restart.get("seconds") or 0.0
    return {
        "state": job["state"],
        "reason": job.get("reason") or "",
        "total": total,
        "steady": metrics.get("steady"),
        "result": metrics.get("result"),
        "trials_before": before,
        "start": None if total is None or "seconds" not in metrics else total - before - metrics["seconds"],
        "compile": counted[0].get("compile") if counted else None,
        "counted": counted[0].get("units") if counted else None,
        "forecast": counted[0].get("forecast") if counted else None,
        "levers": plan["chosen"]["levers"],
        "basis": plan["prediction"]["basis"],
        "offered": (plan["chosen"].get("launch") or {}).get("candidates", []),
        "tried": [
            {key: trial.get(key) for key in ("levers", "gain", "kept", "failed", "result")}
            for trial in tuning.get("trials") or []
        ],
        "settled": tuning.get("settled") or [],
        "not_used": tuning.get("not_used") or [],
        "restart": {key: restart.get(key) for key in ("chosen", "levers", "gain", "reason")} if restart else None,
    }


def _reason(text: str) -> str:
    """Return the first error of a playbook's output, or the last line of the command's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = [line for line in lines if line.startswith(("fatal:", "[ERROR]", "ERROR"))]
    return [*wanted, *lines[-1:]][0][:300] if lines else ""


def candidates(place: Workplace, row: Row, units: int, numerics: str) -> list[dict[str, Any]]:
    """Return the candidates that a Plan knows at its own place, with ``exact`` or ``relaxed`` numerics."""
    document = row.document(units)
    document["request"] = {"objective": "time", "runtimes": ["native"], "numerics": numerics, "trials": "none"}
    path = place.program(row) / "candidates.yml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    command = [*MODAK, "plan", str(path), "--json"]
    done = subprocess.run(
        command, env=place.environment("none"), cwd=place.folder, capture_output=True, text=True, timeout=60, check=True
    )
    plan = json.loads(done.stdout)
    ranked = [plan["chosen"], *(entry["candidate"] for entry in plan["alternatives"])]
    return [entry for entry in ranked if entry.get("image") is None]
