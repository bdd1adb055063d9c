"""What the service keeps."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.jobmodel.site import Sites, load_sites
from modak_deploy.serve.collections import check_entry
from modak_deploy.serve.store import Exists, Store


def test_what_cannot_be_removed_fails_nobodys_request(tmp_path: Path) -> None:
    store = Store(tmp_path, Sites(), lifetime=60)
    old, odd = tmp_path / "files" / "old", tmp_path / "files" / "odd"
    (odd / "inner").mkdir(parents=True)
    old.mkdir()
    (old / "build.sh").touch()
    for folder in (old, odd):
        os.utime(folder, (1, 1))
    (path,) = store.keep({"job.sh": "true\n"}).values()
    assert store.script(*path.split("/")[1:]) is not None
    assert not old.exists()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let it be a certain time."""

    def set_time(text: str) -> None:
        monkeypatch.setattr("time.time", lambda: datetime.fromisoformat(text).timestamp())

    return set_time


def infrastructure(**more: str) -> dict[str, Any]:
    node = {"ncpus": 1, "cpu": {"ncores": 8}}
    configuration = {"scheduler": "slurm", "partitions": {"*": {"nnodes": 2, "node": node}}}
    return {"name": "fresh", "configuration": configuration, **more}


def is_enabled(store: Store) -> bool:
    return store.sites.sites_by_name["fresh"][0].enabled


@pytest.mark.parametrize("disabled", ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00", "2026-03-01T13:00:00+01:00"])
def test_an_infrastructure_is_disabled_from_its_time_on(
    tmp_path: Path, at: Callable[[str], None], disabled: str
) -> None:
    at("2026-03-01T11:59:59Z")
    store = Store(tmp_path, Sites(), lifetime=60)
    entry = infrastructure(disabled=disabled)
    check_entry("infrastructures", entry)
    store.add("infrastructures", entry)
    assert is_enabled(store)
    at("2026-03-01T12:00:00Z")
    assert not is_enabled(store)
    assert not is_enabled(Store(tmp_path, Sites(), lifetime=60))


def test_without_a_time_an_infrastructure_stays_enabled(tmp_path: Path) -> None:
    store = Store(tmp_path, Sites(), lifetime=60)
    entry = infrastructure(disabled="")
    check_entry("infrastructures", entry)
    store.add("infrastructures", entry)
    assert is_enabled(store)


@pytest.mark.parametrize("disabled", ["yes", "tomorrow", "2026-13-01"])
def test_a_time_is_one_and_what_was_kept_before_disables(tmp_path: Path, disabled: str) -> None:
    entry = infrastructure(disabled=disabled)
    with pytest.raises(InputError, match=r"disabled: .* is not a time such as"):
        check_entry("infrastructures", entry)
    store = Store(tmp_path, Sites(), lifetime=60)
    store.add("infrastructures", entry)
    assert not is_enabled(store)


@pytest.mark.parametrize("name", ["the-cluster", "the_cluster"])
def test_a_site_of_a_file_is_not_replaced_by_an_added_one(tmp_path: Path, name: str) -> None:
    """In either form of such a file: whoever has the token would choose where the jobs of others go."""
    (tmp_path / "sites.yaml").write_text("version: 1\nsites: {the-cluster: {target: {type: slurm, host: there}}}\n")
    sites = load_sites([tmp_path / "sites.yaml"])
    store = Store(tmp_path / "kept", sites, lifetime=60)
    with pytest.raises(Exists):
        store.add("infrastructures", {**infrastructure(), "name": name})
    older = Store(tmp_path / "older", Sites(), lifetime=60)
    older.add("infrastructures", {**infrastructure(), "name": name})
    assert name not in Store(tmp_path / "older", sites, lifetime=60).sites.sites_by_name
