"""Blueprints whose targets name a site of the common files."""

import json
from pathlib import Path

import pytest

from modak_deploy.cli import main
from modak_deploy.documents import sitefiles
from modak_deploy.inventory import load_targets
from modak_deploy.tosca.translate import target_section
from modak_deploy.tosca.validate import validate

BASE = (Path(__file__).parents[2] / "data" / "blueprints" / "base.yaml").read_text()
SITE = """\
version: 1
sites:
  lumi: {target: {type: slurm, host: lumi.example.org, workspace: /scratch/modak, polling: {first: 5.0}}}
"""


@pytest.fixture
def blueprint(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A blueprint on the site 'lumi', which nobody describes yet."""
    monkeypatch.delenv("MODAK_SITES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "home"))
    monkeypatch.setattr(sitefiles, "SYSTEM_FOLDER", project / "etc")
    monkeypatch.chdir(project)
    path = project / "b.yaml"
    path.write_text(BASE.replace("hostname: { get_input: host }\n        port: 22", "site: lumi"))
    return path


def described(project: Path, text: str = SITE) -> None:
    (project / "home" / "modak").mkdir(parents=True)
    (project / "home" / "modak" / "sites.yaml").write_text(text)


def test_the_target_is_the_site(project: Path, blueprint: Path) -> None:
    described(project)
    assert validate(blueprint, {}) == []
    (target,) = load_targets(blueprint)
    assert (target.name, target.host, target.workspace) == ("lumi", "lumi.example.org", "/scratch/modak")
    assert target.polling.first == 5.0
    assert target.node is not None and target.node.cores == 64


def test_a_site_that_is_not_described_here_is_a_warning(blueprint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_code = 0
    try:
        main(["blueprint", "validate", str(blueprint)])
    except SystemExit as end:
        main_code = int(end.code or 0)
    captured = capsys.readouterr()
    assert (main_code, captured.out) == (0, f"{blueprint}: no problems found\n")
    assert "b.yaml:77: node_templates.cluster.properties.site: site 'lumi' not found" in captured.err
    with pytest.raises(SystemExit):
        main(["blueprint", "validate", "--json", str(blueprint)])
    assert [(d["severity"], d["code"]) for d in json.loads(capsys.readouterr().out)] == [("warning", "not-found")]


def test_a_site_of_another_type_is_an_error(project: Path, blueprint: Path) -> None:
    described(project, SITE.replace("slurm", "torque"))
    (problem,) = validate(blueprint, {})
    assert "b.yaml:76: " in str(problem)
    assert problem.message == "the type is slurm, and the site lumi is torque"


def test_a_wrong_file_of_sites_is_named(project: Path, blueprint: Path) -> None:
    described(project, SITE.replace("host:", "hots:"))
    (problem,) = validate(blueprint, {})
    assert str(problem).endswith("home/modak/sites.yaml:3: sites.lumi.target: unknown key 'hots'; did you mean 'host'?")


def test_defaults_of_properties_do_not_hide_settings_of_the_site() -> None:
    values = {"tosca_name": "cluster", "type": "slurm", "workspace": "~/.modak", "modules": [], "port": 0}
    assert "workspace" in target_section(values)
    assert target_section({**values, "site": "lumi"}) == {"name": "cluster", "type": "slurm", "site": "lumi"}
    assert target_section({**values, "site": "lumi", "workspace": "/w"})["workspace"] == "/w"


def test_a_site_that_takes_no_jobs_is_an_error_at_its_line(project: Path, blueprint: Path) -> None:
    described(project, SITE.replace("lumi: {target:", "lumi: {enabled: false, target:"))
    (problem,) = validate(blueprint, {})
    assert "b.yaml:77: node_templates.cluster.properties.site: the site lumi is not enabled" in str(problem)
