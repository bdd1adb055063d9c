"""Sites that two files of one folder describe: no name of a file decides where jobs go."""

import os
from pathlib import Path

import pytest
import yaml

from modak_deploy.documents import sitefiles
from modak_deploy.documents.sites import load_site_settings
from modak_deploy.errors import InputError
from modak_deploy.jobmodel.site import load_sites
from modak_deploy.sites.writing import check_writable


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home/modak", "etc", "named", "project"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MODAK_SITES", raising=False)
    monkeypatch.setattr(sitefiles, "SYSTEM_FOLDER", tmp_path / "etc")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def write(path: Path, host: str, name: str = "lumi") -> Path:
    path.write_text(yaml.safe_dump({"version": 1, "sites": {name: {"target": {"host": host}}}}))
    return path


def host(name: str = "lumi") -> str | None:
    return load_site_settings().get(name).settings.target.host


@pytest.mark.parametrize("folder", ["home/modak", "etc", "named"])
def test_two_files_of_a_folder_with_one_site_are_an_error_that_names_both(
    folders: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    if folder == "named":
        monkeypatch.setenv("MODAK_SITES", str(folders / folder))
    first = write(folders / folder / "sites-a.yaml", "a.example.org")
    other = write(folders / folder / "sites-b.yaml", "b.example.org")
    write(folders / folder / "sites-c.yaml", "c.example.org", "other")
    with pytest.raises(InputError) as error:
        host()
    text = f"{other}:2: sites.lumi: the site lumi is described twice, first in {first}:2; keep one of them"
    assert str(error.value).startswith(text)
    assert host("other") == "c.example.org"


def test_files_of_different_folders_stand_over_each_other(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folders / "etc" / "sites.yaml", "system.example.org")
    write(folders / "home" / "modak" / "sites.yaml", "user.example.org")
    assert host() == "user.example.org"
    monkeypatch.setenv("MODAK_SITES", os.pathsep.join(str(folders / name) for name in ("etc", "home/modak")))
    assert host() == "system.example.org"


def test_files_that_are_named_stand_over_each_other_in_one_folder_too(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(folders / "named" / f"sites-{name}.yaml", f"{name}.example.org") for name in "ab"]
    for first, other in (paths, reversed(paths)):
        monkeypatch.setenv("MODAK_SITES", f"{first}{os.pathsep}{other}")
        assert host() == f"{first.stem[-1]}.example.org"
    monkeypatch.setenv("MODAK_SITES", f"{paths[0]}{os.pathsep}{folders / 'etc'}")
    write(folders / "etc" / "sites.yaml", "etc.example.org")
    assert host() == "a.example.org"


def test_a_folder_that_is_named_twice_contradicts_nothing(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folders / "named" / "sites.yaml", "a.example.org")
    monkeypatch.setenv("MODAK_SITES", f"{folders / 'named'}{os.pathsep}{folders / 'named'}")
    assert host() == "a.example.org"


def test_the_option_site_refuses_them_too(folders: Path) -> None:
    paths = [write(folders / "named" / f"sites-{name}.yaml", f"{name}.example.org") for name in "ab"]
    with pytest.raises(InputError, match=r"sites-b\.yaml:2: .*described twice, first in .*sites-a\.yaml:2"):
        load_sites([folders / "named"]).including("lumi")
    assert "lumi" in load_sites(paths).including("lumi").sites_by_name


def test_the_option_site_refuses_them_in_the_older_form(folders: Path) -> None:
    for name, scheduler in (("a", "slurm"), ("b", "torque")):
        content = {"version": 1, "infrastructures": [{"name": "lumi", "scheduler": scheduler}]}
        (folders / "named" / f"sites-{name}.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=r"sites-b\.yaml: the name 'lumi' is given twice, first in .*sites-a\.yaml"):
        load_sites([folders / "named"])
    paths = [folders / "named" / f"sites-{name}.yaml" for name in "ab"]
    assert load_sites(paths).sites_by_name["lumi"][0].scheduler == "torque"


def test_a_site_is_not_added_beside_the_file_that_has_it(folders: Path) -> None:
    other = write(folders / "home" / "modak" / "sites-a.yaml", "a.example.org")
    with pytest.raises(InputError, match=rf"^{other}:2: the site 'lumi' already exists; use --file {other}"):
        check_writable(other.with_name("sites.yaml"), "lumi", replace=True)
    check_writable(other.with_name("sites.yaml"), "mine", replace=False)
    check_writable(other.with_name("other.yaml"), "lumi", replace=False)
    check_writable(folders / "named" / "sites.yaml", "lumi", replace=False)
