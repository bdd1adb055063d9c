"""SODALITE's node of the optimiser: four maps of the JSON job model come to a script in a file of the controller."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.site import load_sites
from modak_deploy.paths import expanded
from modak_deploy.util.files import PRIVATE_SCRIPT, write_atomically

_MAPS = ("job_options", "application", "target", "optimisation")


def saved(given: Mapping[str, Any], *, write: bool) -> dict[str, Any]:
    """Write the job's script, and beside it the one that builds; return ``artifact_url``, ``container_runtime``,

    ``notes`` and ``changed``. Nothing is written where ``write`` is false. InputError names a field of the maps.
    The scripts hold the variables of the maps, and are for the owner only.
    """
    path = expanded(str(given.get("job_script") or ""), key="job_script")
    if not given.get("job_script") or not path.is_absolute():
        raise InputError("must be an absolute path, or one below '~/'", key="job_script")
    document = {"job": {key: in_job_model_spelling(without_nulls(given[key])) for key in _MAPS if given.get(key)}}
    sites = load_sites([expanded(given["site"], key="site")] if given.get("site") else [])
    done = answer(document, sites=sites, now=datetime.now(UTC), origin="the blueprint")
    texts = {path: done.job_script}
    if done.build_script is not None:
        texts[path.with_name(f"{path.stem}-build{path.suffix}")] = done.build_script
    changed = False
    try:
        for file, text in texts.items():
            if file.exists() and _is_private(file) and file.read_text(errors="replace") == text:
                continue
            changed = True
            if write:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, text, mode=PRIVATE_SCRIPT)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", key="job_script") from None
    image = done.document["job"]["application"].get("container_runtime") or ""
    return {
        "changed": changed,
        "artifact_url": path.as_uri(),
        "container_runtime": image,
        "notes": list(done.assumed),
    }


def _is_private(file: Path) -> bool:
    return not file.stat().st_mode & 0o077


def without_nulls(value: Any) -> Any:
    """Return a map without what is null: the older data types have null for what is not given."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def in_job_model_spelling(section: dict[str, Any]) -> dict[str, Any]:
    """Return a section as the job model has it: ``config_type`` is ``type`` there."""
    training = section.get("app_type-ai_training")
    if isinstance(training, dict) and isinstance(config := training.get("config"), dict) and "config_type" in config:
        config = {**config, "type": config["config_type"]}
        del config["config_type"]
        return {**section, "app_type-ai_training": {**training, "config": config}}
    return section
