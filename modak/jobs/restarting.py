"""Restart trials in a job: what travels for them, and how the program is started behind them.

The runner (``sh/restart.sh``) is POSIX sh, so that it works for programs without Python, on any node, and inside a
container as it does outside. It stands before the program's own words, tries the candidates, and becomes the program.
"""

import json
import posixpath
from collections.abc import Sequence
from importlib import resources

from modak.errors import InputError
from modak.jobs import launching
from modak.launch.config import VERSION
from modak.model.plan import Launch, Plan
from modak.model.progress import pieces
from modak.model.trials import RestartCandidate, RestartPlan
from modak.shell import quote

FOLDER = "restart"
RECORD = f"{FOLDER}/record"
RUNNER = f"{FOLDER}/restart.sh"
_SCRIPTS = ("restart.sh", "progress.awk", "counted.awk")


def starter(plan: Plan, directory: str) -> list[str]:
    """Return the words that try candidates before the program, to stand before its own; none where nothing is tried.

    ``directory`` is the job's folder where the program sees it.
    """
    if plan.restart is None:
        return []
    return ["sh", posixpath.join(directory, RUNNER), directory, str(len(_arguments(plan)))]


def files(plan: Plan) -> dict[str, bytes]:
    """Return what travels, by its path below the job's folder."""
    if plan.restart is None:
        return {}
    texts = {name: _script(name) for name in _SCRIPTS}
    texts["settings"] = _settings(plan, plan.restart)
    texts["names"] = "".join(f"{candidate.name}\n" for candidate in plan.restart.candidates)
    texts["trial.sh"] = f'set -- "$@" {" ".join(map(_word, _trial_arguments(plan)))}\n'
    if plan.application.progress is not None:
        texts["pattern"] = "".join(f"{piece}\n" for piece in pieces(plan.application.progress))
    for number, candidate in enumerate(plan.restart.candidates):
        texts[f"{number}.sh"] = _exports(candidate) if number else ""
        if candidate.preload:
            texts[f"{number}.libraries"] = ":".join(candidate.preload)
        if plan.chosen.launch is not None:
            levers = candidate.launch_levers if number else plan.chosen.launch.levers
            launch = plan.chosen.launch.model_copy(update={"levers": levers})
            texts[f"{number}.json"] = launching.config(launch, plan, folder=f"../{launching.FOLDER}")
            texts[f"{number}.trial.json"] = _trial_config(launch)
    return {f"{FOLDER}/{name}": text.encode() for name, text in texts.items()}


def _script(name: str) -> str:
    text = resources.files(__package__).joinpath("sh", name).read_text("utf-8")
    return "".join(f"{line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))


def _settings(plan: Plan, restart: RestartPlan) -> str:
    values: dict[str, object] = {
        "signal": restart.signal,
        "budget": restart.budget * 100,
        "share": "" if restart.share is None else round(restart.share * 1000),
        "units": restart.units or "",
        "wall": "" if plan.job.wall_time is None or restart.only else plan.job.wall_time * 100,
        "count": len(restart.candidates),
        "rounds": restart.rounds,
        "only": 1 if restart.only else "",
        "shortest": round(restart.window * 100),
        "tolerance": f"{restart.tolerance:g}",
    }
    return "".join(f"modak_{key}={_word(str(value))}\n" for key, value in values.items())


def _exports(candidate: RestartCandidate) -> str:
    lines = [f"unset {name}" for name in candidate.unset]
    lines += [f"{name}={_word(value)}\nexport {name}" for name, value in sorted(candidate.environment.items())]
    if candidate.preload:
        value = _word(":".join(candidate.preload))
        lines.append(f'LD_PRELOAD={value}"${{LD_PRELOAD:+:$LD_PRELOAD}}"\nexport LD_PRELOAD')
    return "".join(f"{line}\n" for line in lines)


def _arguments(plan: Plan) -> Sequence[str]:
    """Return the arguments at the end of the command line: the application's, and those of its engine."""
    engine = plan.application.engines.get(plan.chosen.engine) if plan.chosen.engine else None
    arguments = [*plan.application.arguments, *(engine.arguments if engine else [])]
    if arguments and plan.chosen.argv[-len(arguments) :] != arguments:
        raise InputError(
            f"the plan '{plan.name}' cannot try candidates: its command line does not end with 'arguments'"
        )
    return arguments


def _trial_arguments(plan: Plan) -> Sequence[str]:
    engine = plan.application.engines.get(plan.chosen.engine) if plan.chosen.engine else None
    return [*(plan.application.trial or []), *(engine.arguments if engine else [])]


def _trial_config(launch: Launch) -> str:
    """Return the launcher's configuration for a trial: it counts, often, and tries nothing itself."""
    config = {"version": VERSION, "record": "progress", "levers": launch.levers, "interval": 0.1}
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


def _word(value: str) -> str:
    return quote(value)
