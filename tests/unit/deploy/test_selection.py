"""Runs and documents that cannot be read are named; nothing takes them for absent."""

from pathlib import Path

import pytest

from modak_deploy.deploy.selection import Arguments, kept_runs, select
from modak_deploy.documents import RunOptions
from modak_deploy.errors import InputError
from modak_deploy.kept import PLAN_FILE, kept_plan


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results in which nothing can be looked up, as one of another user; root could, so it is acted."""
    folder = tmp_path / "results"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / PLAN_FILE).touch()
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> object:
        if path.is_relative_to(folder / "a") and path != folder / "a":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_run_that_cannot_be_looked_up_is_not_absent(closed: Path) -> None:
    with pytest.raises(InputError, match=r"results/a cannot be read: Permission denied"):
        select(Arguments(["a"]))


def test_a_plan_that_cannot_be_looked_up_is_not_absent(closed: Path) -> None:
    with pytest.raises(InputError, match=r"plan\.json: cannot be read: Permission denied"):
        kept_plan(closed, "a")


def test_a_document_of_a_closed_folder_is_read_to_say_why(closed: Path) -> None:
    with pytest.raises(InputError, match=r"results/a/plan\.json: the document is empty"):  # root may read it
        select(Arguments(["results/a/plan.json"]))


def test_a_folder_of_results_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("modak_deploy.deploy.selection.listed", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        kept_runs(RunOptions(results=str(tmp_path)))
