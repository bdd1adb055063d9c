"""The command modak benchmark: where it tells what happens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.errors import JobError
from modak_deploy.evidence import benchmark
from modak_deploy.evidence.command import benchmark as run
from modak_deploy.evidence.configurations import Wanted


def test_what_happens_is_told_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def carry_out(*arguments: Any, reporter: Any) -> Any:
        reporter.notice("the job waits")
        reporter.output(SimpleNamespace(id="4711"), "round 1\nround 2\n")
        raise JobError("it did not complete")

    plan = SimpleNamespace(chosen=SimpleNamespace(name="as-is"))
    monkeypatch.setattr(benchmark, "prepare", lambda *arguments, **options: SimpleNamespace(configurations=[plan]))
    monkeypatch.setattr(benchmark, "carry_out", carry_out)
    document = tmp_path / "work.yml"
    document.write_text("application: {name: work, executable: 'true'}\n")
    with pytest.raises(JobError, match="did not complete"):
        run([document], Wanted(), {}, results=tmp_path, record=False, config=None)
    said = capsys.readouterr()
    assert said.out == "1 configuration: as-is\n"
    assert "the job waits\n" in said.err and "job 4711 | round 2\n" in said.err
