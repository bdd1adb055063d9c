"""Adding sites to files that users wrote: everything else stays, or the file is left as it is."""

import os
import threading

import pytest
import yaml

from modak_deploy.errors import InputError
from modak_deploy.sites.writing import check_writable, write_site

NEW = {"target": {"type": "slurm", "host": "new.example.org"}}
FILE = """\
# My sites; keep this line.
version: 1   # and this

sites:
  one: # the first
    # a comment inside
    target: {host: one.example.org}

  two:
    target:
      host: two.example.org
      modules:
        - a

# about the scripts
scripts: []
"""


def sites(path):
    return yaml.safe_load(path.read_text())["sites"]


def test_a_new_file_is_private_and_its_folder_too(tmp_path):
    path = tmp_path / "config" / "modak" / "sites.yaml"
    write_site(path, "new", NEW, replace=False)
    assert sites(path) == {"new": NEW}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_comments_and_layout_stay(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text(FILE)
    path.chmod(0o640)
    write_site(path, "new", NEW, replace=False)
    text = path.read_text()
    assert [line for line in FILE.splitlines() if line not in text.splitlines()] == []
    assert text.index("        - a\n") < text.index("  new:\n") < text.index("# about the scripts")
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\n",
        "version: 1",
        "version: 1\nsites:\n    a: {}",
        "version: 1\nsites:\n a:\n  description: x\n # the end\n# really\n",
        "sites:\n  a: {}\n\n\nversion: 1\n",
        "version: 1\nsites:\n  a:\n    job:\n      pre_execution: |\n        cd /\n\n        ls\n\n\n",
        "---\nversion: 1\nsites:\n  a: {}\n...\n",
        "version: 1\nsites:\n  # nothing but this\n  a: &x {description: y}\n  b: *x\n",
    ],
)
def test_odd_layouts_keep_their_meaning(tmp_path, text):
    path = tmp_path / "sites.yaml"
    path.write_text(text)
    before = yaml.safe_load(text)
    try:
        write_site(path, "new", NEW, replace=False)
    except InputError as error:
        assert "the file is left as it is" in str(error)
        assert path.read_text() == text
    else:
        assert yaml.safe_load(path.read_text()) == {**before, "sites": {**before.get("sites", {}), "new": NEW}}


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nsites: {a: {}}\n",
        "version: 1\nsites: {}\n",
        "\ufeffversion: 1\n",
        "version: 1\r\nsites:\r\n  a: {}\r\n",
    ],
)
def test_what_cannot_be_inserted_into_is_left_with_a_hint(tmp_path, text):
    path = tmp_path / "sites.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=r"the file is left as it is: .*; print the site with --print"):
        check_writable(path, "new", replace=False)
    with pytest.raises(InputError, match="the file is left as it is"):
        write_site(path, "new", NEW, replace=False)
    assert path.read_bytes() == text.encode()


def test_a_site_that_is_there_is_only_replaced_on_request(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text(FILE)
    with pytest.raises(InputError, match=r"sites.yaml:9: the site 'two' already exists; use --replace"):
        write_site(path, "two", NEW, replace=False)
    write_site(path, "two", NEW, replace=True)
    assert sites(path)["two"] == NEW
    assert "# about the scripts" in path.read_text()
    assert "a comment inside" in path.read_text()


def test_a_site_with_comments_is_not_replaced(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text(FILE)
    with pytest.raises(InputError, match="the site 'one' has comments, which would be lost"):
        write_site(path, "one", NEW, replace=True)
    assert path.read_text() == FILE


def test_a_broken_file_is_named_and_left(tmp_path):
    path = tmp_path / "sites.yaml"
    path.write_text("version: 1\nsites:\n  a: {targt: {}}\n")
    with pytest.raises(InputError, match=r"sites.yaml:3: sites.a: unknown key 'targt'; did you mean 'target'\?"):
        write_site(path, "new", NEW, replace=False)


def test_a_link_stays_a_link(tmp_path):
    real = tmp_path / "dotfiles" / "sites.yaml"
    real.parent.mkdir()
    real.write_text(FILE)
    link = tmp_path / "sites.yaml"
    link.symlink_to(real)
    write_site(link, "new", NEW, replace=False)
    assert link.is_symlink()
    assert "new" in sites(real)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        write_site(tmp_path / "sites.yaml", "new", NEW, replace=False)


def test_two_commands_at_once_lose_nothing(tmp_path):
    path = tmp_path / "sites.yaml"
    names = [f"site{n}" for n in range(12)]
    threads = [threading.Thread(target=write_site, args=(path, n, NEW), kwargs={"replace": False}) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sites(path)) == sorted(names)
