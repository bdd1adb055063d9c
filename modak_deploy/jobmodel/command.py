"""What ``modak plan`` does with a document of the job model."""

import json as json_text
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from modak_deploy.documents import Document
from modak_deploy.errors import InputError
from modak_deploy.jobmodel.answer import Answer, answer
from modak_deploy.jobmodel.site import load_sites
from modak_deploy.util.files import PRIVATE, PRIVATE_SCRIPT, write_atomically


def write_answer(
    document: Document,
    *,
    sites: Sequence[Path],
    search: Sequence[Path],
    now: datetime,
    explain: bool,
    json: bool,
    output: Path | None,
) -> None:
    """Print the completed document, or the Plan; write document and scripts into the folder ``output``."""
    done = answer(
        document.data,
        sites=load_sites(sites),
        now=now,
        search=search,
        origin=str(document.path),
        locate=document.locate,
        written=document.written,
    )
    completed = done.document
    if output is not None:
        completed = done.with_scripts_in(output.absolute())
        _write_all(output, document.path, done, completed)
    for sentence in done.assumed:
        print(f"{document.path}: {sentence}", file=sys.stderr)
    if explain:
        from modak_deploy.optimiser.table import render

        sys.stdout.write(render(done.plan, explain=True))
    else:
        sys.stdout.write(done.plan.to_json() if json else _text(completed))


def _text(document: object) -> str:
    return json_text.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _write_all(folder: Path, source: Path, done: Answer, document: object) -> None:
    """Write into ``folder``, which is made where it is absent; a name tells its content's job.

    Document and scripts hold the variables that the user wrote as ``NAME=VALUE``: they are for the owner only.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: --output names a folder for a document of the job model")
    job, build = done.names()
    texts = {job: done.job_script, f"{source.stem}.json": _text(document)}
    if done.build_script is not None:
        texts[build] = done.build_script
    if (folder / f"{source.stem}.json").absolute() == source.absolute():
        raise InputError(f"{source} would be overwritten", hint="let --output name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomically(folder / name, text, mode=PRIVATE_SCRIPT if name.endswith(".sh") else PRIVATE)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None
