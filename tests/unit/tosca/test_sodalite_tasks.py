"""The scripts of SODALITE's image pullers and data movers, run by a real shell."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.tosca.sodalite_tasks import script_of

PULLER = {"kind": "image_puller", "image": "a/b:1", "registry": "docker", "images_location": "images"}


def ran(tmp_path: Path, task: dict[str, Any], **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a task's script in a home of its own, with stand-ins for ``programs``."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name, body in programs.items():
        path = tmp_path / "bin" / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", script_of(task)], env=environment, cwd="/", capture_output=True, text=True)


def test_an_image_is_pulled_once(tmp_path: Path) -> None:
    pull = 'echo "$@" >>"$HOME/calls"; touch "$3"'
    for _ in range(2):
        assert ran(tmp_path, PULLER, apptainer=pull).returncode == 0
    assert (tmp_path / "images" / "b_1.sif").exists()
    assert (tmp_path / "calls").read_text().split()[-1] == "docker://a/b:1"
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_pull_that_fails_leaves_no_image(tmp_path: Path) -> None:
    assert ran(tmp_path, PULLER, apptainer='touch "$3"; exit 9').returncode == 9
    assert not (tmp_path / "images" / "b_1.sif").exists()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"registry": "private"}, "registry"),
        ({"registry": "ftp"}, "registry"),
        ({"output": "../x.sif"}, "output"),
        ({"output": "-x"}, "output"),
        ({"image": ""}, "image"),
        ({"images_location": "a\nb"}, "images_location"),
    ],
)
def test_a_property_that_cannot_be_honoured(changed: dict[str, str], key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        script_of({**PULLER, **changed})


@pytest.mark.parametrize("image", ["a'b; touch owned #", "$(touch owned)", "-x"])
def test_no_text_is_read_as_shell(tmp_path: Path, image: str) -> None:
    done = ran(tmp_path, {**PULLER, "image": image, "output": "x.sif"}, apptainer='echo "$4"; touch "$3"')
    assert done.stdout == f"docker://{image}\n"
    assert not list(tmp_path.rglob("owned"))


def test_a_text_is_written_as_it_is(tmp_path: Path) -> None:
    text = "it's $HOME `x` {{ y }}\n\n"
    for location in ("~/in/a b", "in/c"):
        assert ran(tmp_path, {"kind": "textFile", "location": location, "content": text}).returncode == 0
    assert (tmp_path / "in" / "a b").read_text() == (tmp_path / "in" / "c").read_text() == text


@pytest.mark.parametrize(
    ("source", "key"), [("file:///etc/passwd", "src"), ("-o x", "src"), ("https://", "src"), ("", "src")]
)
def test_only_addresses_are_downloaded(source: str, key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        script_of({"kind": "url", "src": source, "dst": None})


def test_a_download_lands_in_the_folder_or_the_file(tmp_path: Path) -> None:
    curl = 'while [ $# -gt 2 ]; do [ "$1" = -o ] && out=$2; shift; done; echo "$2" >"$out"'
    for target in (None, "~/there/", "~/there/as-this"):
        assert ran(tmp_path, {"kind": "url", "src": "https://h/d/f.gz?x=1", "dst": target}, curl=curl).returncode == 0
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"f.gz", "as-this"}
    assert (tmp_path / "f.gz").read_text() == "https://h/d/f.gz?x=1\n"


def test_a_transfer(tmp_path: Path) -> None:
    task = {
        "kind": "gridftp", "parallel_streams": 3, "src_protocol": "gsiftp", "src_address": "h", "src_port": 0,
        "src_path": "/a b", "dst_path": "/c", "dst_address": "localhost", "dst_port": None,
    }  # fmt: skip
    done = ran(tmp_path, task, globus_url_copy='printf "%s|" "$@"')
    assert done.stdout == "-r|-cd|-p|3|gsiftp://h/a b|file:///c|"
    for key, value in {"parallel_streams": 0.5, "src_protocol": "http", "src_address": "a/b"}.items():
        with pytest.raises(InputError, match=f"^{key}: "):
            script_of({**task, key: value})
