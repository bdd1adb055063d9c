"""The job's script: the role's template, filled with quoted values."""

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from modak_deploy import shell
from modak_deploy.errors import InputError
from modak_deploy.jobs import launching, ranks, restarting, supervising
from modak_deploy.jobs.results import declared_outputs
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.schedulers.process import GRACE

# Shells refuse to set some of these and are led astray by the rest.
_RESERVED = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "IFS", "PPID", "SHELLOPTS", "UID", "_"})
_STAND_IN = "/modak-work/"
"""With the job's tag, stands for the scratch folder, which is known where the job runs only: no text of the user's
can hold the tag."""
_TEMPLATE = Path("roles", "batch_job", "templates", "job.sh.j2")


def default_template() -> str:
    """Return the text of the role's own template, from a checkout or from the installed collection."""
    package = Path(__file__).resolve().parent.parent
    for top in (package.parent, package.parent / "ansible_collections" / "modak" / "deploy"):
        if (top / _TEMPLATE).is_file():
            return (top / _TEMPLATE).read_text(encoding="utf-8")
    raise InputError(f"the job template {_TEMPLATE} is not installed beside modak: name one with 'template'")


def render(spec: JobSpec, request: JobRequest, scheduler: Scheduler, template: str | None = None) -> str:
    """Return the whole text of the job's script.

    ``template`` is the text of a Jinja template; the role's own when None. What reaches it is quoted shell words
    (``directory``, ``output``, ``error``, ``pre_execution``, ``post_execution``, ``scratch``, the values of
    ``environment``, and ``modules``, ``preload``, ``outputs``), shell commands (``prepare``, ``launch``), header lines
    (``directives``), names of variables (``id_variable``, ``task_variable``, ``host_variable``, ``scratch_variable``),
    ``name`` and ``tag``, which are harmless as they are, and numbers and booleans. A site's own must run ``launch`` in
    ``work/`` below ``directory`` (in a copy of it below ``scratch``, where there is one, named by ``$modak_work``) and
    put lines ``code=`` and ``state=`` in ``state/exit`` at the end, as the role's does. Where it looks at
    ``own_shell``, and that is true, the scheduler starts it as the job's shell: it must read what a login shell reads.
    Where ``secrets`` is true it must read ``state/secret_environment`` and remove it.
    Raise InputError where an option cannot be honoured by the scheduler or the template is faulty.
    """
    if not request.argv:
        raise InputError(f"the plan '{request.name}' has no command line to run: its chosen candidate's argv is empty")
    if request.argv[0].startswith("-"):
        raise InputError(f"the program '{request.argv[0]}' of the plan '{request.name}' begins with a hyphen")
    spec = replace(spec, own_shell=scheduler.script_is_shell and _takes_own_shell(template))
    values: dict[str, object] = {
        "name": spec.name,
        "tag": spec.tag,
        "directives": scheduler.directives(spec),
        "directory": quoted_argument(spec.directory),
        "output": quoted_argument(spec.output),
        "error": None if spec.error is None else quoted_argument(spec.error),
        "id_variable": (spec.options.array and scheduler.array_variable) or scheduler.id_variable,
        "end_signals": scheduler.end_signals,
        "task_variable": scheduler.task_variable if spec.options.array else "",
        "host_variable": scheduler.host_variable,
        "wall_time": spec.options.wall_time,
        "keep_time": not scheduler.keeps_time,
        "grace": GRACE,
        "submit_environment": scheduler.reads_environment(spec),
        "own_shell": spec.own_shell,
        "environment": quoted_environment(request, spec, scheduler),
        "secrets": bool(request.secret_environment),
        "modules": [quoted_argument(name) for name in [*spec.target.modules, *spec.options.modules]],
        # In a container they are the image's own.
        "preload": [quoted_argument(name) for name in request.preload if request.runtime == "native"],
        "pre_execution": optional_argument(spec.options.pre_execution),
        "post_execution": optional_argument(spec.options.post_execution),
        "prepare": "\n".join(filter(None, [scheduler.prepare(spec), ranks.prepare(request)])),
        "launch": _launch(request, spec, scheduler),
        **_scratch(request, spec),
    }
    values["uses_carriage_return"] = "modak_cr" in repr(values)
    if template is not None:
        _check_template(template, values)
    return fill(default_template() if template is None else template, values)


def merged_environment(request: JobRequest, spec: JobSpec) -> Mapping[str, str]:
    """Return the application's environment: its own, the candidate's, and the job's, which wins over the application's.

    Raise InputError where the job's levers and the user set one variable to different values.
    """
    levers = dict(request.lever_environment)
    user = dict(request.environment) | dict(spec.options.environment)
    for name in sorted(levers.keys() & user.keys()):
        if levers[name] != user[name]:
            key = "job" if name in spec.options.environment else "application"
            raise InputError(
                f"{key}.environment.{name} differs from '{levers[name]}', which the plan's candidate "
                f"'{request.candidate}' needs: leave the variable out, or forbid the lever that sets it"
            )
    _check_names(request, spec)
    merged = levers | user | {"MODAK_TAG": spec.tag}
    if (threads := _threads(spec)) is not None:
        merged.setdefault("OMP_NUM_THREADS", str(threads))
    return merged


def quoted_environment(request: JobRequest, spec: JobSpec, scheduler: Scheduler) -> list[tuple[str, str]]:
    """Return the application's environment as names and quoted words, by name."""
    quoted = {name: quoted_argument(value) for name, value in merged_environment(request, spec).items()}
    if scheduler.default_threads is not None:
        quoted.setdefault("OMP_NUM_THREADS", f'"${{OMP_NUM_THREADS:-{scheduler.default_threads}}}"')
    return sorted(quoted.items())


def _check_names(request: JobRequest, spec: JobSpec) -> None:
    """Refuse variables that the shell or modak sets, and secrets that something else would overwrite."""
    secrets = request.secret_environment
    for key, names in (
        ("application.environment", request.environment.keys()),
        ("application.secret_environment", secrets),
        ("job.environment", spec.options.environment.keys()),
    ):
        for name in sorted(names):
            if name in _RESERVED or name.lower().startswith("modak_"):
                why = "modak keeps" if name.lower().startswith("modak_") else "the shell keeps"
                raise InputError(f"{key}.{name} cannot be set: {why} that variable for itself")
    for what, names in (
        ("job.environment", spec.options.environment.keys()),
        ("a lever", request.lever_environment.keys()),
    ):
        if twice := sorted(secrets & set(names)):
            raise InputError(
                f"application.secret_environment.{twice[0]} is set by {what} as well: leave one of them out"
            )


def _threads(spec: JobSpec) -> int | None:
    """Return the threads of a rank: what the user wrote, else one for each core that is reserved for it.

    None for a single rank of which nobody said anything. OpenPBS would give several ranks the threads of the whole node
    each.
    """
    cores = spec.resources.threads or spec.options.cores_per_rank or (1 if spec.resources.ranks > 1 else None)
    return min(filter(None, (spec.options.threads, cores)), default=None)


def _launch(request: JobRequest, spec: JobSpec, scheduler: Scheduler) -> str:
    argv = ranks.checked(request, _in_image(request, spec.directory))
    argv = [*supervising.starter(request, spec.directory), *argv]
    before = restarting.runner(request, spec.directory) if spec.resources.ranks > 1 else []
    launch = portable(" ".join([*filter(None, [shell.join(before)]), scheduler.launch(spec, argv)]))
    return launch.replace(_STAND_IN + request.tag, '"$modak_work"').replace(ranks.KIND, '"$modak_mpi"')


def _scratch(request: JobRequest, spec: JobSpec) -> dict[str, object]:
    """Return what the template must know of the scratch folder."""
    scratch = spec.options.scratch or ""
    variable = scratch.removeprefix("$") if scratch.startswith("$") else None
    return {
        "scratch": f'"${{{variable}-}}"' if variable else optional_argument(scratch),
        "scratch_variable": variable,
        "outputs": [quoted_argument(path) for path in declared_outputs(request)],
        "in_container": request.runtime != "native",
    }


def _in_image(request: JobRequest, directory: str) -> list[str]:
    """Return the application's command line as it runs in the chosen image; the plain one where there is none."""
    if request.runtime == "native":
        return [*_starter(request, directory), *request.argv]
    from modak_deploy.containers.location import folder
    from modak_deploy.containers.run import wrap

    workspace = posixpath.dirname(posixpath.dirname(directory))
    work = None if request.options.scratch is None else _STAND_IN + request.tag
    return wrap(
        request,
        request.argv,
        directory=directory,
        images=folder(request.target, workspace),
        work=work,
        starter=partial(_starter, request),
    )


def _starter(request: JobRequest, directory: str) -> list[str]:
    """Return the words before the program's own, for the job's folder as the program sees it."""
    return [*restarting.starter(request, directory), *launching.starter(request, directory)]


@lru_cache(maxsize=64)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return environment.from_string(template)


def fill(template: str, values: Mapping[str, object]) -> str:
    try:
        return _compiled(template).render(values)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise InputError(f"the job template cannot be filled{f' (line {line})' if line else ''}: {error}") from None


def _takes_own_shell(template: str | None) -> bool:
    return template is None or "own_shell" in (_variables(template) or ())


def _variables(template: str) -> set[str] | None:
    """Return the values that a template makes use of; None for a faulty one, which is reported when it is filled."""
    try:
        return meta.find_undeclared_variables(ImmutableSandboxedEnvironment().parse(template))
    except TemplateError:
        return None


def _check_template(template: str, values: Mapping[str, object]) -> None:
    """Refuse a site's template that would leave out what the user has asked for."""
    used = _variables(template)
    if values["secrets"] and used is not None and "secrets" not in used:
        raise InputError(
            "application.secret_environment cannot be honoured by this job template: it has no 'secrets' in it"
        )
    for key in ("modules", "pre_execution", "post_execution", "scratch"):
        if values[key] and used is not None and key not in used:
            raise InputError(f"job.{key} cannot be honoured by this job template: it has no '{key}' in it")


def quoted_argument(value: str) -> str:
    return portable(shell.quote(value))


def optional_argument(value: str | None) -> str | None:
    return None if value is None or not value.strip() else quoted_argument(value.strip())


def portable(quoted: str) -> str:
    """Return quoted text without carriage returns: sbatch and qsub take one before a line end for a DOS script."""
    return quoted.replace("\r", "'\"$modak_cr\"'")
