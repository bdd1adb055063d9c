"""Sites in files: which files are read, whom they may come from, how they are merged and filled into documents."""

import os
import pwd
from pathlib import Path

import pytest
import yaml

from modak_deploy.documents import sitefiles
from modak_deploy.documents.deployment import parse_deployment, read_description
from modak_deploy.documents.sites import expand, load_site_settings
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.inventory import load_targets
from modak_deploy.model.target import Target

LUMI = """\
version: 1
sites:
  lumi: # the CPU partition
    description: a cluster
    target:
      type: slurm
      host: lumi.example.org
      modules: [cray-python]
      partitions: [{name: standard, nodes: 2, node: {cores: 128, microarchitecture: zen3}}]
    job:
      account: project_1
      qos: normal
    catalogue: [own.yaml, "https://example.org/levers.yaml"]
"""
DOCUMENT = """\
application: {name: hello, script: hello.py}
target: lumi
"""


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A home, a system folder and a project folder of the test's own."""
    for name in ("home/modak", "etc", "project"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MODAK_SITES", raising=False)
    monkeypatch.setattr(sitefiles, "SYSTEM_FOLDER", tmp_path / "etc")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def system(folders, text=LUMI):
    return write(folders / "etc" / "sites.yaml", text)


def user(folders, text=LUMI):
    return write(folders / "home" / "modak" / "sites.yaml", text)


def project(folders, text=LUMI):
    return write(folders / "project" / "modak-sites.yaml", text)


def site(**keys):
    return yaml.safe_dump({"version": 1, "sites": {"lumi": keys}})


def parsed(folders, text=DOCUMENT):
    return read_description(write(folders / "project" / "deploy.yml", text)).parse()[0]


def test_a_document_names_a_site(folders):
    path = system(folders)
    deployment = parsed(folders)
    assert deployment.target.name == "lumi"
    assert (deployment.target.type, deployment.target.host) == ("slurm", "lumi.example.org")
    assert (deployment.job.account, deployment.job.qos) == ("project_1", "normal")
    assert deployment.request.catalogue == [str(path.parent / "own.yaml"), "https://example.org/levers.yaml"]


def test_the_documents_keys_replace_those_of_the_site(folders):
    system(folders)
    deployment = parsed(
        folders,
        "application: {name: hello, script: hello.py}\n"
        "target: {site: lumi, name: mine, modules: [other]}\n"
        "job: {account: project_2}\n"
        "request: {catalogue: [/mine.yaml]}\n",
    )
    assert (deployment.target.name, deployment.target.modules) == ("mine", ["other"])
    assert (deployment.job.account, deployment.job.qos) == ("project_2", "normal")
    assert deployment.request.catalogue[-1] == "/mine.yaml"


def test_no_file_is_read_for_a_document_without_a_site(folders):
    user(folders, "version: [")
    assert parsed(folders, "application: {name: hello, script: hello.py}\n").target.name == "localhost"


def test_a_site_leaves_no_trace_in_the_plan():
    assert "site" not in Target(name="a", site="b").model_dump()


def test_a_users_file_completes_the_systems(folders):
    system(folders)
    user(folders, site(target={"user": "alice"}, job={"account": "project_9"}))
    deployment = parsed(folders)
    assert (deployment.target.host, deployment.target.user) == ("lumi.example.org", "alice")
    assert (deployment.job.account, deployment.job.qos) == ("project_9", "normal")


def test_the_projects_file_stands_over_the_users(folders):
    user(folders, site(target={"modules": ["one"], "python": "/usr/bin/python3"}))
    project(folders, site(target={"modules": ["two"]}))
    target = parsed(folders).target
    assert (target.modules, target.python) == (["two"], "/usr/bin/python3")


def test_the_variable_replaces_all_files(folders, monkeypatch):
    user(folders)
    first = write(folders / "first.yaml", site(description="first", target={"user": "a"}))
    other = folders / "other"
    other.mkdir()
    write(other / "sites-x.yaml", site(description="other", target={"user": "b", "port": 22}))
    monkeypatch.setenv("MODAK_SITES", f"{first}{os.pathsep}{other}")
    target = parsed(folders).target
    assert (target.user, target.port, target.host) == ("a", 22, None)


@pytest.mark.parametrize("named, text", [("missing.yaml", "file not found"), ("empty", "no file sites*.yaml")])
def test_the_variable_names_what_is_not_there(folders, monkeypatch, named, text):
    (folders / "empty").mkdir()
    monkeypatch.setenv("MODAK_SITES", str(folders / named))
    with pytest.raises(InputError, match=text.replace("*", r"\*")):
        parsed(folders)


def test_errors_name_file_line_and_key(folders):
    path = user(folders, LUMI.replace("account", "acount"))
    with pytest.raises(InputError) as error:
        parsed(folders)
    assert str(error.value).startswith(f"{path}:11: sites.lumi.job: unknown key 'acount'; did you mean 'account'?")


def test_a_value_that_a_site_and_a_document_make_impossible_together_names_the_sites_line(folders):
    path = user(folders, site(target={"type": "slurm"}, job={"memory": "4G"}))
    text = DOCUMENT.replace("lumi", "lumi\njob: {memory_per_core: 1G}\nother_targets: []")
    with pytest.raises(InputError, match="give 'memory' or 'memory_per_core'"):
        parsed(folders, text)
    located = read_description(folders / "project" / "deploy.yml").locate(("job", "memory"))
    assert (located.source, located.line) == (str(path), 4)


def test_a_site_that_is_not_there(folders):
    system(folders)
    with pytest.raises(InputError) as error:
        parsed(folders, DOCUMENT.replace("lumi", "lumy"))
    assert str(error.value).endswith("deploy.yml:2: target.site: site 'lumy' not found; did you mean 'lumi'?")


def test_a_site_that_is_off(folders):
    system(folders, site(enabled=False))
    with pytest.raises(InfeasibleError, match="not enabled"):
        parsed(folders)


@pytest.mark.parametrize(
    "keys, text",
    [
        ({"target": {"site": "other"}}, "a site cannot refer to another site"),
        ({"job": {"array": "1-3"}}, "'job.array' belongs to one job"),
        ({"job": {"dependency": ["afterok:1"]}}, "'job.dependency' belongs to one job"),
        ({"target": {"host": "-oProxyCommand=id"}}, "must be a host name"),
        ({"target": ["host"]}, "must be a mapping"),
        ({"job": {"account": "a\nb"}}, "must be one line of text"),
    ],
)
def test_settings_that_no_site_can_have(folders, keys, text):
    user(folders, site(**keys))
    with pytest.raises(InputError, match=text):
        parsed(folders)


def test_the_types_of_site_and_document_differ(folders):
    system(folders)
    with pytest.raises(InputError, match=r"deploy.yml:2: target.type: the type is torque, and the site lumi is slurm"):
        parsed(folders, DOCUMENT.replace("lumi", "{site: lumi, type: torque}"))


def test_several_targets_have_one_job(folders):
    system(folders)
    with pytest.raises(InputError, match=r"write 'job.account' into the document"):
        parsed(folders, DOCUMENT + "other_targets: [{name: here}]\n")
    deployment = parsed(folders, DOCUMENT + "other_targets: [{name: here}]\njob: {account: a, qos: b}\n")
    assert [target.name for target in deployment.targets] == ["lumi", "here"]


def test_sections_from_variables_and_the_inventory_plugin(folders):
    system(folders)
    deployment = parse_deployment(
        {"application": {"name": "hello", "script": "hello.py"}, "target": {"site": "lumi"}}, origin="the variables"
    )
    assert deployment.target.host == "lumi.example.org"
    assert load_targets(write(folders / "project" / "deploy.yml", DOCUMENT))[0].host == "lumi.example.org"


def test_what_is_no_mapping_is_left_to_the_model():
    for wrong in ([], 1, None, {"site": 5}, {"site": None}, ""):
        assert expand({"target": wrong}).data == {"target": wrong}


def untrusted(folders):
    with pytest.raises(InputError) as error:
        load_site_settings()
    assert error.value.diagnostics[0].code == "untrusted-file"
    return str(error.value)


@pytest.mark.parametrize("where", [system, user, project])
def test_a_file_that_everybody_can_write_to_is_not_used(folders, where):
    path = where(folders)
    path.chmod(0o666)
    assert untrusted(folders) == (
        f"{path}: everybody can write to the file, so its settings are not used; run: chmod go-w {path}"
    )


@pytest.mark.parametrize("where", [system, user, project])
def test_a_file_in_a_folder_that_everybody_can_write_to_is_not_used(folders, where):
    path = where(folders)
    path.parent.chmod(0o777)
    assert f"everybody can write to the folder {path.parent}" in untrusted(folders)
    path.parent.chmod(0o1777)  # as /tmp: others cannot replace the file there
    assert load_site_settings().names() == ["lumi"]


def test_a_link_does_not_hide_who_can_write_to_the_file(folders):
    (folders / "shared").mkdir()
    (folders / "shared").chmod(0o777)
    target = write(folders / "shared" / "sites.yaml", LUMI)
    (folders / "home" / "modak" / "sites.yaml").symlink_to(target)
    assert f"everybody can write to the folder {target.parent}" in untrusted(folders)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("where", [system, user, project])
def test_a_file_of_another_user_is_not_used(folders, where):
    path = where(folders)
    os.chown(path, 12345, -1)
    assert "the file belongs to the user 12345, so its settings are not used; name the file in" in untrusted(folders)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_groups(folders, monkeypatch):
    path = project(folders)
    path.chmod(0o664)
    os.chown(path, -1, 12345)
    assert "the group 12345 can write to the file" in untrusted(folders)
    # A group of the user's alone, as useradd makes them, is no other user.
    monkeypatch.setattr(sitefiles.pwd, "getpwuid", lambda _: pwd.struct_passwd(("a", "x", 0, 12345, "", "/", "/")))
    monkeypatch.setattr(sitefiles.grp, "getgrgid", lambda _: sitefiles.grp.struct_group(("a", "x", 12345, [])))
    assert load_site_settings().names() == ["lumi"]
    monkeypatch.setattr(sitefiles.grp, "getgrgid", lambda _: sitefiles.grp.struct_group(("a", "x", 12345, ["b"])))
    assert "the group a can write" in untrusted(folders)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_the_user_names_may_be_somebody_elses(folders, monkeypatch):
    path = write(folders / "shared.yaml", LUMI, 0o664)
    os.chown(path, 12345, 12345)
    monkeypatch.setenv("MODAK_SITES", str(path))
    assert load_site_settings().names() == ["lumi"]
    path.chmod(0o666)
    assert "everybody can write" in untrusted(folders)


@pytest.mark.parametrize("key", ["host", "user", "port", "private_key", "known_hosts"])
def test_a_projects_file_cannot_lead_a_site_elsewhere(folders, key):
    user(folders)
    path = project(folders, site(target={key: 22 if key == "port" else "other"}))
    with pytest.raises(InputError) as error:
        parsed(folders)
    assert error.value.diagnostics[0].code == "untrusted-file"
    assert f"{path}:4: sites.lumi.target.{key}: the project's file cannot change '{key}'" in str(error.value)


def test_a_projects_file_may_describe_sites_of_its_own_and_repeat_a_host(folders):
    user(folders)
    project(folders, LUMI + "  mine: {target: {host: mine.example.org}}\n")
    assert load_site_settings().names() == ["lumi", "mine"]
    assert parsed(folders).target.host == "lumi.example.org"


@pytest.mark.parametrize(
    "text", ["[]", "5", "version: 2", "version: 1\nsites: []", "sites: {}", "version: 1\nsites: {1: {}}"]
)
def test_files_that_are_no_files_of_sites(folders, text):
    user(folders, text)
    with pytest.raises(InputError, match=r"sites\.yaml"):
        parsed(folders)


def test_a_site_without_any_key(folders):
    user(folders, "version: 1\nsites: {lumi: {}}\n")
    assert parsed(folders).target.name == "lumi"
