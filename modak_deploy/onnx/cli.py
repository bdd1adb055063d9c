"""The command ``modak convert``, apart from how it is called."""

import sys
from pathlib import Path

from modak_deploy.answers import answer
from modak_deploy.onnx.convert import convert
from modak_deploy.onnx.request import load_request
from modak_deploy.terminal import visible


def convert_command(
    document: Path, output: Path | None, *, replace: bool, jobs: int, record: bool, quiet: bool
) -> None:
    """Convert the models of ``document``; progress goes to stderr, the folder of the bundle to stdout."""
    request = load_request(document)
    folder = output or Path(f"{request.name}.bundle")

    def report(line: str) -> None:
        if not quiet:
            print(visible(line), file=sys.stderr, flush=True)

    bundle = convert(request, folder, base=document.parent, replace=replace, jobs=jobs, record=record, report=report)
    answer({"bundle": bundle.folder, "manifest": bundle.manifest}, str(bundle.folder))
