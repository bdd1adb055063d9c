"""The examples of public machines are valid, sourced, and hold nobody's account."""

import re
from pathlib import Path

import pytest
from archspec.cpu import TARGETS

from modak_deploy.documents.sitefiles import SiteFilePath
from modak_deploy.documents.sites import Sites, read_site_file

FILES = sorted((Path(__file__).resolve().parents[3] / "examples" / "sites").glob("sites*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_valid_and_names_its_sources(path):
    file = read_site_file(SiteFilePath(path, "named"))
    text = path.read_text()
    assert re.search(r"https://\S+", text) and re.search(r"20\d\d-\d\d", text)
    assert file.names()
    for name in file.names():
        settings = Sites([file]).get(name).settings
        target = settings.target
        assert (settings.description, target.host, target.type) and settings.job.account is None and target.user is None
        nodes = [target.node, *(partition.node for partition in target.partitions)]
        assert all(node is None or node.microarchitecture in (None, *TARGETS) for node in nodes)


def test_there_are_examples():
    assert len(FILES) == 4
