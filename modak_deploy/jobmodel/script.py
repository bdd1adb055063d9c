"""The document's scripts: whole by themselves, to be submitted by anybody from any folder."""

import re
from collections.abc import Sequence
from importlib.resources import files

from modak_deploy.containers.run import wrap
from modak_deploy.errors import InputError
from modak_deploy.jobmodel.imagebuild import FOLDER, JOB_FOLDER, BuiltImage
from modak_deploy.jobmodel.model import Build
from modak_deploy.jobmodel.source import command_of, source_of
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.job import error_beside
from modak_deploy.jobs.script import fill, optional_argument, portable, quoted_argument, quoted_environment
from modak_deploy.model.plan import Plan, Resources, sha256_of
from modak_deploy.model.reference import Reference, parse
from modak_deploy.model.request import JobOptions
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.schedulers.process import GRACE
from modak_deploy.schedulers.registry import get
from modak_deploy.shell import join

_APPENDED = ("APPTAINERENV_APPEND_PATH", "SINGULARITYENV_APPEND_PATH")
"""What adds to the search path inside a container, from Singularity 3.0 on; Apptainer reads the first of them."""


def image_of(plan: Plan, built: BuiltImage | None) -> str | None:
    """Return the chosen image as the document names it: pinned where its content is known."""
    image = plan.chosen.image
    if image is None or built is not None:
        return None if built is None else built.name
    reference: Reference = parse(image.reference)
    if reference.scheme == "file" and reference.repository.startswith(f"{JOB_FOLDER}/"):
        return f"private://{reference.repository.removeprefix(f'{JOB_FOLDER}/')}"
    return str(reference.pinned(image.digest) if image.digest and reference.scheme != "file" else reference)


def job_script(plan: Plan, passed: Sequence[str], built: BuiltImage | None = None) -> str:
    """Return the job's script; ``passed`` are the submitter's variables that it gets, ``built`` its own image."""
    scheduler = get(plan.scheduler)
    spec = _spec(plan, plan.chosen.resources, plan.job)
    if scheduler.reads_environment(spec):
        raise InputError(
            "OpenPBS passes an environment on through modak's own jobs only", key="job_options.copy_environment"
        )
    image = plan.chosen.image
    notes = []
    if built is not None:
        notes.append(f"Its image {built.entry} is made by the build script, which has to run first.")
    elif image is not None and image_of(plan, None) == image.reference and not image.reference.startswith("/"):
        notes.append("The image is named by a tag, which may come to mean another one: write its digest to pin it.")
    options = plan.job
    values: dict[str, object] = {
        **_common(spec, scheduler),
        "directives": _directives(spec, scheduler, passed),
        "notes": notes,
        "output": quoted_argument(spec.output),
        "error": None if spec.error is None else quoted_argument(spec.error),
        "task_variable": scheduler.task_variable if options.array else "",
        "environment": quoted_environment(job_request(plan), spec, scheduler),
        "preload": [quoted_argument(name) for name in plan.chosen.preload if plan.chosen.runtime == "native"],
        "pre_execution": optional_argument(options.pre_execution),
        "post_execution": optional_argument(options.post_execution),
        "prepare": scheduler.prepare(spec),
        "beside": "/" not in plan.chosen.argv[0],
        "appended": [] if plan.chosen.runtime == "native" else list(_APPENDED),
        "launch": _launch(plan, spec, scheduler, plan.chosen.argv, built, passed),
        "limit": "" if scheduler.keeps_time or not options.wall_time else f"timeout -k {GRACE} {options.wall_time} ",
    }
    return _filled("job", values)


def build_script(plan: Plan, build: Build | None, built: BuiltImage | None) -> str | None:
    """Return the script that builds image and application once, as far as there are any to build.

    InputError for a source that cannot be trusted.
    """
    if build is None and built is None:
        return None
    scheduler = get(plan.scheduler)
    what = [build.src, command_of(build)] if build else []
    tag = f"modak-{sha256_of([*what, image_of(plan, built)])[:16]}"
    cores = build.build_parallelism if build else None
    spec = _spec(plan, Resources(threads=cores), _build_options(plan.job, cores), tag=tag)
    values: dict[str, object] = {
        **_common(spec, scheduler),
        "directives": _directives(spec, scheduler, ()),
        "image": _image_values(built) if built else None,
        "application": _application_values(plan, build, built, spec, scheduler) if build else None,
    }
    return _filled("build", values)


def _image_values(built: BuiltImage) -> dict[str, object]:
    return {
        "entry": built.entry,
        "folder": quoted_argument(built.folder) if built.folder else f'"$modak_work"/{FOLDER}',
        "folders": sorted({path.rpartition("/")[0] for path in built.texts} - {""}),
        "texts": built.texts,
        "mark": built.mark,
        "words": " ".join(map(quoted_argument, built.arguments)),
    }


def _application_values(
    plan: Plan, build: Build, built: BuiltImage | None, spec: JobSpec, scheduler: Scheduler
) -> dict[str, object]:
    values, argv = source_of(build)
    return {**values, "build": _launch(plan, spec, scheduler, argv, built)}


def build_here(build: Build, name: str) -> str:
    """Return the script that builds the application ``name`` once, without an image, in the folder where it starts."""
    values, argv = source_of(build)
    return _filled(
        "build",
        {
            "name": name,
            "tag": f"modak-{sha256_of([build.src, command_of(build), None])[:16]}",
            "start": "$PWD",
            "modules": [],
            "directives": [],
            "image": None,
            "application": {**values, "build": portable(join(argv))},
        },
    )


def _build_options(job: JobOptions, cores: int | None) -> JobOptions:
    """Return the job's options as far as they concern a build: where it runs and who pays."""
    kept = {name: getattr(job, name) for name in ("account", "partition", "qos", "wall_time", "constraint", "modules")}
    return JobOptions(**kept, cores_per_rank=cores)


def _spec(plan: Plan, resources: Resources, options: JobOptions, *, tag: str | None = None) -> JobSpec:
    separate = options.error is not None or not options.join_output
    tag = plan.tag() if tag is None else tag
    output = options.output or f"{plan.name}.out"
    return JobSpec(
        name=plan.name,
        tag=tag,
        directory=f"/{tag}",
        script="job.sh",
        output=output,
        error=error_beside(output, options.error or f"{plan.name}.err") if separate else None,
        resources=resources,
        options=options,
        target=plan.target,
    )


def _common(spec: JobSpec, scheduler: Scheduler) -> dict[str, object]:
    return {
        "name": spec.name,
        "tag": spec.tag,
        "start": scheduler.submit_folder,
        "modules": [quoted_argument(name) for name in [*spec.target.modules, *spec.options.modules]],
    }


def _directives(spec: JobSpec, scheduler: Scheduler, passed: Sequence[str]) -> list[str]:
    """Return the header for a job in any folder, with the variables that are passed on in the one line for them."""
    own = f"{spec.name}-{spec.tag.removeprefix('modak-')}.scheduler.log"
    lines = []
    for line in scheduler.directives(spec):
        if passed and line == "#SBATCH --export=NONE":
            line = f"#SBATCH --export={','.join(passed)}"
        if passed and line.startswith("#PBS -v MODAK_TAG="):
            line = ",".join([line, *passed])
        lines.append(line.replace(f"{spec.directory}/", "").replace("scheduler.log", own))
    return lines


def _launch(
    plan: Plan,
    spec: JobSpec,
    scheduler: Scheduler,
    argv: Sequence[str],
    built: BuiltImage | None,
    passed: Sequence[str] = (),
) -> str:
    chosen = plan.chosen.image
    if built:
        image: str | None = f"{built.folder or f'{spec.directory}/{FOLDER}'}/{built.file}"
    elif chosen is not None and chosen.reference.startswith(f"{JOB_FOLDER}/"):
        image = chosen.reference
    else:
        image = image_of(plan, None)
    inside = wrap(job_request(plan), argv, directory=spec.directory, images=spec.directory, image=image, passed=passed)
    # The folder is known where the job runs only; the tag stands for it, which no text of the user's can hold.
    text = portable(scheduler.launch(spec, inside))
    text = re.sub(rf"(?<= ){JOB_FOLDER}(?=/)", '"$modak_work"', text)
    text = re.sub(rf"(?<= ){spec.directory}(?=/{FOLDER}/)", '"$modak_work"', text)
    return re.sub(rf"(?<=[=:]){spec.directory}(/work)?(?=[ :])", '"$modak_work"', text)


def _filled(name: str, values: dict[str, object]) -> str:
    values["uses_carriage_return"] = "modak_cr" in repr(values)
    return fill(files("modak_deploy.jobmodel").joinpath(f"data/{name}.sh.j2").read_text(encoding="utf-8"), values)
