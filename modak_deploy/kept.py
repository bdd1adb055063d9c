"""The Plan that lies beside the results of a run, where others may have changed it."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.documents import check
from modak_deploy.documents.jsontext import parse_json
from modak_deploy.documents.reading import read_text
from modak_deploy.errors import InputError
from modak_deploy.model.plan import VERSION, Plan, version_of
from modak_deploy.state import is_own, remember
from modak_deploy.util.files import PRIVATE, exists, write_atomically

PLAN_FILE = "plan.json"


class OutdatedPlanError(InputError):
    """The Plan that lies beside the results was written by an older modak, and says less than this one needs."""


@dataclass(frozen=True)
class Kept:
    """A Plan that was read from a results folder."""

    path: Path
    plan: Plan
    own: bool | None
    """Whether this controller wrote it as it is; False where it was changed since, None where that is not known."""


def kept_plan(results: Path, name: str) -> Kept | None:
    """Return the Plan that was deployed under the run's ``name``, None where there is none.

    InputError when the file is there and is no Plan, or is the Plan of another run; OutdatedPlanError when an older
    modak wrote it.
    """
    path = results / name / PLAN_FILE
    if not exists(path):
        return None
    hint = "remove it, or deploy with force=true, to plan anew"
    try:
        is_file = path.is_file()  # a pipe would be waited for without end
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path, code="file-unreadable") from None
    if not is_file:
        raise InputError("this is not a file", source=path, hint=f"{hint}")
    text = read_text(path)
    try:
        data = parse_json(text, str(path), hint)
        if (version := version_of(data)) is not None and version < VERSION:
            raise OutdatedPlanError(f"{path}: version {version} of the Plan is not supported by this modak; {hint}")
        plan = check(Plan, data, origin=str(path))
    except RecursionError:
        raise InputError("the JSON is nested too deeply", source=path, hint=f"{hint}") from None
    if plan.name != name:
        raise InputError(f"this is the Plan of the run '{plan.name}', not of '{name}'", source=path, hint=f"{hint}")
    return Kept(path, plan, is_own(path, text))


def keep_plan(plan: Plan, results: Path) -> bool:
    """Write the Plan where ``kept_plan`` finds it, for its owner only; return whether that changed anything."""
    path = results / plan.name / PLAN_FILE
    text = plan.to_json()
    changed = False
    try:
        if not _holds(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text, mode=PRIVATE)
            changed = True
        path.chmod(0o600)
    except OSError as error:
        raise InputError(f"the plan cannot be kept as {path}: {error.strerror}") from None
    # Without this record the Plan is only trusted less, so that a home that cannot be written to is no reason to stop.
    with suppress(OSError, InputError):
        remember(path, text)
    return changed


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except FileNotFoundError:
        return False
