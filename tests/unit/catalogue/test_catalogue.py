"""The catalogue's files: what ships is whole, a site's files add and replace, bad ones are refused with their place."""

import textwrap

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError

SITE = """\
version: 1
groups:
  - {name: io, summary: how files are read}
levers:
  - name: readahead
    group: io
    summary: ask for pages early
    environment: {READAHEAD: "1"}
"""


def write(folder, text, name="levers.yaml"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_what_ships_loads_and_its_groups_have_one_default_at_most():
    catalogue = load_catalogue()
    assert {"keras-tensorflow", "malloc-hugepages"} <= set(catalogue.levers)
    for levers in catalogue.by_group.values():
        assert sum(lever.default for lever in levers) <= 1
    assert catalogue.version == load_catalogue().version


def test_a_site_adds_a_lever(tmp_path):
    write(tmp_path, SITE)
    catalogue = load_catalogue([tmp_path])
    assert catalogue.levers["readahead"].variables() == {"READAHEAD": "1"}
    assert "keras-tensorflow" in catalogue.levers
    assert catalogue.version != load_catalogue().version


def test_a_site_replaces_a_lever_in_its_place(tmp_path):
    write(
        tmp_path,
        """\
        version: 1
        levers:
          - {name: tcmalloc, group: allocator, summary: ours, preload: libours.so.1}
        """,
    )
    catalogue = load_catalogue([tmp_path])
    assert catalogue.levers["tcmalloc"].preload == "libours.so.1"
    assert list(catalogue.levers) == list(load_catalogue().levers)


def test_a_site_brings_its_own_launcher(tmp_path):
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers" / "ours.py").write_text("")
    write(tmp_path, SITE + "    launcher: ours.py\n")
    assert load_catalogue([tmp_path]).launchers["ours.py"] == tmp_path / "launchers" / "ours.py"


BAD = [
    ("levers: []\n", 1, "the key 'version' is required"),
    ("version: 2\n", 1, "version: must be 1, not 2"),
    ("version: 1\nleverz: []\n", 2, "unknown key 'leverz'; did you mean 'levers'?"),
    (SITE + "    enviroment: {}\n", 9, "unknown key 'enviroment'; did you mean 'environment'?"),
    (SITE + "    when: {glibc: 2.35}\n", 9, "write the version in quotes"),
    (SITE + "    when: {glibc: 'new'}\n", 9, "'new' is not a version or a range"),
    (SITE.replace('"1"', "1"), 8, "must be text, not 1; write it in quotes"),
    (SITE.replace("readahead", "read ahead"), 5, "levers[0].name: must be a name"),
    (SITE.replace('"1"', '"{cores}"'), 5, "only {threads} is known"),
    (SITE.replace('"1"', '"{threads}"'), 5, "the lever sets no threads"),
    (SITE + "    launcher: ../../etc/passwd\n", 9, "levers[0].launcher: must be"),
    (SITE + "    group: io\n", 9, "the key 'group' is given twice"),
    ("version: 1\nlevers: [\n", 3, ""),
    ("version: 1\ngroups:\n  - {name: a, summary: b, required: true}\n", 3, "needs the 'framework'"),
]


@pytest.mark.parametrize(("text", "line", "words"), BAD)
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, line, words):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_catalogue([tmp_path])
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the document is empty"),
        (SITE.replace("group: io", "group: oi"), "a group 'oi' that no file describes"),
        (SITE + "    when: {levers: [nothing]}\n", "needs a lever 'nothing' that no file describes"),
        (SITE + "    conflicts: [nothing]\n", "excludes a lever 'nothing' that no file describes"),
        (SITE + "    launcher: none.py\n", "the launcher 'none.py' of 'readahead' lies in no launchers folder"),
        (SITE.replace("    group: io", "    default: true\n    group: keras-backend"), "are both default of"),
        (SITE + SITE[SITE.index("  - name: readahead") :], "the name 'readahead' is given twice"),
    ],
)
def test_a_catalogue_that_does_not_fit_together_is_refused(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_catalogue([tmp_path])
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_two_files_of_one_folder_may_not_share_a_name(tmp_path):
    write(tmp_path, SITE)
    write(tmp_path, SITE, "levers-more.yaml")
    with pytest.raises(InputError, match="the name 'io' is given twice, first in"):
        load_catalogue([tmp_path])


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="catalogue folder or file not found"):
        load_catalogue([tmp_path / "nowhere"])


def test_all_faults_are_told_at_once(tmp_path):
    write(tmp_path, SITE.replace('"1"', "1") + "    enviroment: {}\n    colour: red\n")
    with pytest.raises(InputError) as caught:
        load_catalogue([tmp_path])
    assert len(str(caught.value).splitlines()) == 3
