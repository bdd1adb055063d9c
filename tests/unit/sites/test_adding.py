"""The commands of modak site, on this machine."""

import json
import os
import sys

import pytest
import yaml

import plugins
from modak_deploy.cli import main
from modak_deploy.containers import registry
from modak_deploy.documents import sitefiles
from modak_deploy.sites.adding import address_of


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MODAK_SITES", raising=False)
    monkeypatch.setattr(sitefiles, "SYSTEM_FOLDER", tmp_path / "etc")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "modak" / "sites.yaml"


def modak(capsys, *arguments):
    """Return exit code and output of a command."""
    code = 0
    try:
        main(["site", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_this_machine_is_added_listed_shown_and_checked(capsys, config):
    code, out, _ = modak(capsys, "add", "--name", "here", "--description", "my machine")
    assert (code, out) == (0, f"{config}: added the site 'here'; use it with 'target: here' in a document\n")
    assert yaml.safe_load(config.read_text())["sites"]["here"]["target"]["node"]["cores"] >= 1
    code, out, _ = modak(capsys, "list")
    assert out.splitlines()[1].split() == ["here", "machine", "-", f"{config}:5", "my", "machine"]
    assert json.loads(modak(capsys, "list", "--json")[1])[0]["name"] == "here"
    code, out, _ = modak(capsys, "show", "here")
    assert out.startswith(f"# {config}:5\nhere:\n  description: my machine\n")
    assert modak(capsys, "check", "here") == (0, "here: as described\n", "")


def test_what_differs_is_said_with_file_and_line(capsys, config):
    modak(capsys, "add", "--name", "here")
    data = yaml.safe_load(config.read_text())
    data["sites"]["here"]["target"]["node"]["cores"] = 4711
    config.write_text(yaml.safe_dump(data))
    code, _, err = modak(capsys, "check", "here")
    assert code == 4
    assert err.startswith(f"{config}:2: here: ") and "4711" in err
    assert modak(capsys, "check")[0] == 0


def test_runtimes_that_the_site_describes_are_compared_too(capsys, config):
    modak(capsys, "add", "--name", "here", "--minimal")
    data = yaml.safe_load(config.read_text())
    data["sites"]["here"]["software"] = {"runtimes": {"apptainer": "0.0.1"}}
    config.write_text(yaml.safe_dump(data))
    code, _, err = modak(capsys, "check", "here")
    assert code == 4 and err.startswith(f"{config}:2: here: software.runtimes")  # absent here, or a later version


@pytest.mark.parametrize(("described", "is_so"), [("2.1", True), ("2", True), ("2.1-1", True), ("2.10", False)])
def test_a_runtime_of_another_distribution_is_asked_for(described, is_so, capsys, config, tmp_path, monkeypatch):
    """``modak site add`` describes it; a check that asks only for modak's own runtimes would not find it."""
    folder = plugins.install(plugins.DATA / "treerun", tmp_path / "site-packages", monkeypatch)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    try:
        modak(capsys, "add", "--name", "here")
        data = yaml.safe_load(config.read_text())
        runtimes = data["sites"]["here"]["software"]["runtimes"]
        assert runtimes["treerun"] == "2.1"
        runtimes["treerun"] = described
        config.write_text(yaml.safe_dump(data))
        code, _, err = modak(capsys, "check", "here")
    finally:
        sys.modules.pop("modak_treerun", None)
        registry.get.cache_clear()
    if is_so:
        assert (code, err) == (0, "")
    else:
        assert code == 4 and "software.runtimes.treerun: the description says 2.10, and 2.1 was found" in err


def test_print_writes_nothing(capsys, config):
    code, out, _ = modak(capsys, "add", "--name", "here", "--print", "--minimal")
    assert (code, yaml.safe_load(out)) == (0, {"sites": {"here": {"target": {"type": "machine"}}}})
    assert not config.exists()


def test_a_second_add_is_refused_before_anything_is_asked(capsys, config, monkeypatch):
    modak(capsys, "add", "--name", "here", "--minimal")
    monkeypatch.setattr("modak_deploy.sites.adding.ask_target", lambda *_: pytest.fail("asked"))
    code, _, err = modak(capsys, "add", "--name", "here")
    assert (code, err) == (2, f"{config}:5: the site 'here' already exists; use --replace, or another --name\n")


def test_all_problems_of_all_files_are_reported_at_once(capsys, config, tmp_path):
    config.parent.mkdir()
    config.write_text("version: 1\nsites:\n  a: {targt: {}}\n")
    (tmp_path / "modak-sites.yaml").write_text("version: 1\nsites:\n  b: {jobs: {}}\n")
    code, _, err = modak(capsys, "check")
    assert code == 2
    assert "sites.yaml:3: sites.a: unknown key 'targt'" in err and "sites.b: unknown key 'jobs'" in err


def test_nothing_is_described(capsys):
    assert "add one with 'modak site add USER@HOST'" in modak(capsys, "list")[1]
    assert "no file of sites; searched in modak-sites.yaml" in modak(capsys, "check")[1]
    code, _, err = modak(capsys, "show", "lumi")
    assert code == 2 and "site 'lumi' not found; searched in" in err


def test_one_file_is_meant(capsys):
    assert "give one of them" in modak(capsys, "add", "--project", "--file", "x.yaml")[2]


@pytest.mark.parametrize(
    "host, name",
    [
        ("alice@lumi.csc.fi", "lumi"),
        ("login.leonardo.example.it", "leonardo"),
        ("login01.example.org", "example"),
        ("login", "login"),
        ("10.0.0.1", "site-10.0.0.1"),
        ("alice@[::1]:2222", "site---1"),
        (None, "localhost"),
    ],
)
def test_names_of_sites(host, name):
    assert address_of(host, None).name == name
