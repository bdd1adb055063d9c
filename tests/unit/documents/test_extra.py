"""``-e KEY=VALUE``: single values of documents, with the settings of the sites that their targets name."""

from pathlib import Path

import pytest

from modak_deploy.documents import read_description
from modak_deploy.documents.extra import read_described, read_extra, with_values
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment

APPLICATION = "application: {name: a, executable: /bin/true}\n"
SITES = """version: 1
sites:
  cluster:
    target: {type: slurm, host: login.example.org, python: /apps/python}
    job: {account: science, wall_time: 600}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of sites."""
    path = tmp_path / "sites.yaml"
    path.write_text(SITES)
    path.chmod(0o600)
    monkeypatch.setenv("MODAK_SITES", str(path))
    return tmp_path


def described(folder: Path, text: str, *extra: str) -> Deployment:
    path = folder / "deploy.yml"
    path.write_text(APPLICATION + text)
    return with_values(read_description(path), read_extra(extra)).parse()[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("wall_time=3", "the key 'wall_time' is unknown; did you mean 'job.wall_time'?"),
        ("jobs.wall_time=3", "the key 'jobs.wall_time' is unknown; did you mean 'job.wall_time'?"),
        ("forse=true", "the key 'forse' is unknown; did you mean 'force'?"),
        ("job={}", "the section 'job' cannot be given as a whole; give its keys, such as -e job.name=..."),
        (
            "target=cluster",
            "the section 'target' cannot be given as a whole; give its keys, such as -e target.site=cluster",
        ),
        (
            "other_targets=[a]",
            "the section 'other_targets' cannot be given as a whole; write it into a document of its own",
        ),
        ("job.wall_tme=3", "job: unknown key 'wall_tme'; did you mean 'wall_time'?"),
    ],
)
def test_a_misspelt_key_is_told_to_be_of_the_command_line(folder: Path, given: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        described(folder, "job: {nodes: 1}\n", given)
    assert str(caught.value) == f"-e: {message}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("target.python=/opt/python", "target: the key 'name' is required"),
        ("job.wall_time.hours=4", "job.wall_time: a mapping is not a time"),
    ],
)
def test_what_only_the_command_line_has_is_located_there(folder: Path, given: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        described(folder, "", given)
    assert str(caught.value).startswith(f"-e: {message}")


def test_a_command_that_deploys_nothing_heeds_where_files_are(folder: Path) -> None:
    path = folder / "deploy.yml"
    path.write_text(f"{APPLICATION}results: mine\nsearch_paths: [there]\njob: {{nodes: 2}}\n")
    description, deployment, options = read_described([path], ["search_paths=one,two", "job.wall_time=30m"])
    assert (options.results, options.search_paths) == ("mine", ["one", "two"])
    assert (deployment.job.nodes, deployment.job.wall_time) == (2, 1800)
    assert str(description.locate(("job", "wall_time"))) == "-e"
    with pytest.raises(
        InputError, match="-e: 'force' is an option of deployments, and this is none; there are results"
    ):
        read_described([path], ["force=true"])


@pytest.mark.parametrize("target", ["target: cluster\n", "target: {site: cluster, user: alice}\n"])
def test_the_other_settings_of_a_site_stay(folder: Path, target: str) -> None:
    given = ("target.python=/mine", "job.wall_time=30")
    found = described(folder, f"{target}job: {{partition: long}}\n", *given)
    assert (found.target.name, found.target.type, found.target.host) == ("cluster", "slurm", "login.example.org")
    assert found.target.python == "/mine"
    assert (found.job.account, found.job.wall_time, found.job.partition) == ("science", 30, "long")


def test_a_site_may_be_named(folder: Path) -> None:
    assert described(folder, "", "target.site=cluster").target.host == "login.example.org"
    with pytest.raises(InputError, match=r"^-e: target.site: .*'clustr'.*did you mean 'cluster'"):
        described(folder, "", "target.site=clustr")


def test_a_section_that_is_no_mapping_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^-e: 'job.wall_time' cannot be set: its section is not a mapping; "):
        described(folder, "job: soon\n", "job.wall_time=30")


def test_a_wrong_value_is_told_to_be_of_the_command_line(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^-e: job.nodes: must be a whole number, not 'two'"):
        described(folder, "target: cluster\n", "job.nodes=two")


def test_a_value_is_located_where_it_was_given(folder: Path) -> None:
    path = folder / "deploy.yml"
    path.write_text(f"{APPLICATION}target: clustr\njob:\n  nodes: 2\n")
    description = with_values(read_description(path), read_extra(["target.site=cluster", "job.account=physics"]))
    places = {key: str(description.locate(key)) for key in [("job", "account"), ("job", "nodes"), ("target", "site")]}
    assert places == {("job", "account"): "-e", ("job", "nodes"): f"{path}:4", ("target", "site"): "-e"}
    assert str(description.locate(("target", "python"))) == f"{folder / 'sites.yaml'}:4"


def test_the_documents_stay_as_they_are(folder: Path) -> None:
    path = folder / "deploy.yml"
    path.write_text(f"{APPLICATION}job: {{nodes: 2}}\n")
    description = read_description(path)
    changed = with_values(description, read_extra(["job.nodes=3", "job.name=other"]))
    assert (description.data["job"], changed.data["job"]) == ({"nodes": 2}, {"nodes": 3, "name": "other"})
