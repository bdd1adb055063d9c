"""What ``modak plan`` writes for a document of the job model."""

import json
import os
import stat
from pathlib import Path

import pytest

from jobmodel_parts import DATA, NOW
from modak_deploy.documents import read_document
from modak_deploy.jobmodel.command import write_answer


def test_document_and_scripts_are_for_their_owner_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((DATA / "training.json").read_text())
    document["job"]["job_options"]["copy_environment_variable"] = "TOKEN=s3cret"
    (tmp_path / "training.json").write_text(json.dumps(document))
    output = tmp_path / "made"
    output.mkdir()
    (output / "training.json").touch(0o644)  # from an older release
    mask = os.umask(0o022)
    try:
        write_answer(
            read_document(tmp_path / "training.json"),
            sites=[DATA / "sites.yaml"],
            search=[],
            now=NOW,
            explain=False,
            json=False,
            output=output,
        )
    finally:
        os.umask(mask)
    capsys.readouterr()
    modes = {file.suffix: stat.S_IMODE(file.stat().st_mode) for file in output.iterdir()}
    assert modes == {".json": 0o600, ".sh": 0o700}
    assert len(list(output.glob("*.sh"))) == 2
    assert sum("s3cret" in file.read_text() for file in output.iterdir()) >= 2
