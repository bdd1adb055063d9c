"""Restart trials in a job: what travels for them, and how the program is started behind them.

The runner (``sh/restart.sh``) is POSIX sh, so that it works for programs without Python, on any node, and inside a
container as it does outside. It stands before the program's own words, tries the candidates, and becomes the program;
with several ranks it stands before their launcher.
"""

import json
import posixpath

from modak_deploy.jobs import launching
from modak_deploy.launch.config import VERSION
from modak_deploy.model.execution import Launch
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.progress import pieces
from modak_deploy.model.trials import RestartCandidate, RestartPlan
from modak_deploy.shell import join, quote
from modak_deploy.util.scripts import script_text

FOLDER = "restart"
RECORD = f"{FOLDER}/record"
RUNNER = f"{FOLDER}/restart.sh"
RANK = f"{FOLDER}/rank.sh"
CANDIDATE = "@modak-candidate@"
"""Stands for the candidate in the command line of a rank: the runner puts its number there."""
_PARTS = ("restart_processes.sh", "restart_trial.sh", "restart_search.sh", "restart.sh")
"""The runner, as it is put together: functions, then what calls them."""
_SCRIPTS = ("progress.awk", "counted.awk")


def runner(request: JobRequest, directory: str) -> list[str]:
    """Return the words that try candidates, to stand before the whole command line; none where nothing is tried.

    ``directory`` is the job's folder where the runner sees it.
    """
    if request.restart is None:
        return []
    return ["sh", posixpath.join(directory, RUNNER), directory, str(request.restart.replaced)]


def starter(request: JobRequest, directory: str) -> list[str]:
    """Return the words before the program's own: the runner, or what starts one rank with a candidate.

    The runner of several ranks stands before their launcher instead, so that all start and end together.
    ``directory`` is the job's folder where the program sees it.
    """
    if request.restart is None or request.resources.ranks == 1:
        return runner(request, directory)
    return ["sh", posixpath.join(directory, RANK), directory, CANDIDATE]


def files(request: JobRequest) -> dict[str, bytes]:
    """Return what travels, by its path below the job's folder."""
    if request.restart is None:
        return {}
    texts = {name: _script(name) for name in _SCRIPTS}
    texts[posixpath.basename(RUNNER)] = "".join(map(_script, _PARTS))
    if request.resources.ranks > 1:
        texts[posixpath.basename(RANK)] = _script("restart_rank.sh")
    texts["settings"] = _settings(request, request.restart)
    texts["names"] = "".join(f"{candidate.name}\n" for candidate in request.restart.candidates)
    texts["trial.sh"] = f'set -- "$@" {join(request.restart.arguments)}\n'
    if request.restart.progress is not None:
        texts["pattern"] = "".join(f"{piece}\n" for piece in pieces(request.restart.progress))
    for number, candidate in enumerate(request.restart.candidates):
        texts[f"{number}.sh"] = _exports(candidate) if number else ""
        if number and (arguments := _arguments(candidate)):
            texts[f"{number}.words"] = arguments
        if candidate.preload:
            texts[f"{number}.libraries"] = ":".join(candidate.preload)
        if request.launch is not None:
            levers = candidate.launch_levers if number else request.launch.levers
            gain = 1.0 if number else request.launch.gain  # of the levers at hand alone something is known
            launch = request.launch.model_copy(update={"levers": levers, "gain": gain})
            texts[f"{number}.json"] = launching.config(launch, request, folder=f"../{launching.FOLDER}")
            texts[f"{number}.trial.json"] = _trial_config(launch, request)
    return {f"{FOLDER}/{name}": text.encode() for name, text in texts.items()}


def _script(name: str) -> str:
    return script_text(__package__, "sh", name)


def _settings(request: JobRequest, restart: RestartPlan) -> str:
    values: dict[str, object] = {
        "signal": restart.signal,
        "budget": restart.budget * 100,
        "share": "" if restart.share is None else round(restart.share * 1000),
        "units": restart.units or "",
        "wall": "" if request.options.wall_time is None or restart.only else request.options.wall_time * 100,
        "count": len(restart.candidates),
        "rounds": restart.rounds,
        "only": 1 if restart.only else "",
        "shortest": round(restart.window * 100),
        "tolerance": f"{restart.tolerance:g}",
        "ranks": request.resources.ranks if request.resources.ranks > 1 else "",
    }
    return "".join(f"modak_{key}={quote(str(value))}\n" for key, value in values.items())


def _exports(candidate: RestartCandidate) -> str:
    lines = [f"unset {name}" for name in candidate.unset]
    lines += [f"{name}={quote(value)}\nexport {name}" for name, value in sorted(candidate.environment.items())]
    if candidate.preload:
        value = quote(":".join(candidate.preload))
        lines.append(f'LD_PRELOAD={value}"${{LD_PRELOAD:+:$LD_PRELOAD}}"\nexport LD_PRELOAD')
    return "".join(f"{line}\n" for line in lines)


def _arguments(candidate: RestartCandidate) -> str:
    """Return the shell lines that make a candidate's command line of the chosen one's; none where they are alike."""
    lines: list[str] = []
    if candidate.replaced:
        lines += [
            f"modak_keep=$(($# - {candidate.replaced}))",
            'for modak_word in "$@"; do',
            '  shift; [ "$modak_keep" -le 0 ] || set -- "$@" "$modak_word"; modak_keep=$((modak_keep - 1))',
            "done",
        ]
    if candidate.arguments:
        lines.append(f'set -- "$@" {join(candidate.arguments)}')
    return "".join(f"{line}\n" for line in lines)


def _trial_config(launch: Launch, request: JobRequest) -> str:
    """Return the launcher's configuration for a trial: it counts, often, and tries nothing itself."""
    config = {"version": VERSION, "record": "progress", "interval": 0.1, **launching.switched_on(launch)}
    config.update(launching.cache(launch.model_copy(update={"candidates": []}), request))
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
