"""Which revision of a repository the build script takes, with git itself."""

import os
import subprocess
from pathlib import Path

import pytest

from jobmodel_parts import NOW, document
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.site import Sites

ADDRESS = "https://example.org/solver.git"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.fixture
def revisions(tmp_path: Path) -> dict[str, str]:
    """A repository with a branch besides its default one; return names of revisions, with what its file then holds."""

    def git(*words: str) -> str:
        command = ["git", *IDENTITY, *words]
        return subprocess.run(command, cwd=tmp_path / "upstream", check=True, capture_output=True, text=True).stdout

    (tmp_path / "upstream").mkdir()
    git("init", "-q", "-b", "trunk")
    commits = {}
    for branch, content in (("trunk", "first"), ("trunk", "second"), ("fix/solver", "third")):
        git("checkout", "-q", "-B", branch)
        (tmp_path / "upstream" / "text").write_text(content)
        git("add", "text")
        git("commit", "-q", "-m", content)
        commits[content] = git("rev-parse", "HEAD").strip()
        if content == "first":
            git("tag", "v1.0")
    git("checkout", "-q", "trunk")
    names = {"v1.0": "first", "trunk": "second", "fix/solver": "third", commits["first"][:10]: "first"}
    return {**names, commits["third"]: "third"}


def build(folder: Path, revision: str) -> subprocess.CompletedProcess[str]:
    """Run the build script for a revision, with the repository in the place of its address."""
    change = {
        "target": {"job_scheduler_type": "none"},
        "application/build": {"src": f"{ADDRESS}#{revision}", "build_command": "cat text >made"},
    }
    script = answer(document("plain", change), sites=Sites(), now=NOW).build_script or ""
    folder.mkdir()
    (folder / "build.sh").write_text(script)
    instead = {"GIT_CONFIG_KEY_0": f"url.file://{folder.parent}/upstream.insteadOf", "GIT_CONFIG_VALUE_0": ADDRESS}
    environment = {**os.environ, "GIT_CONFIG_COUNT": "1", **instead}
    return subprocess.run(["sh", "build.sh"], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_commit_a_tag_and_a_branch_pin_the_source(tmp_path: Path, revisions: dict[str, str]) -> None:
    for number, (revision, content) in enumerate(revisions.items()):
        folder = tmp_path / str(number)
        done = build(folder, revision)
        assert done.returncode == 0, (revision, done.stderr)
        assert (folder / "solver" / "made").read_text() == content


@pytest.mark.usefixtures("revisions")
def test_a_revision_that_is_not_there_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    done = build(tmp_path / "job", "v9.9")
    assert done.returncode == 1
    assert f"{ADDRESS} has no commit, tag or branch v9.9" in done.stderr
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["build.sh"]


@pytest.mark.usefixtures("revisions")
def test_a_whole_commit_is_no_branch_or_tag_that_was_given_its_name(tmp_path: Path) -> None:
    """Whoever is between an http:// address and the job could serve anything by such a name."""
    for number, place in enumerate(("heads", "tags")):
        pin = f"{number + 1:040x}"
        (tmp_path / "upstream/.git/refs" / place / pin).write_bytes(
            (tmp_path / "upstream/.git/refs/heads/trunk").read_bytes()
        )
        done = build(tmp_path / place, pin)
        assert done.returncode == 1 and f"{ADDRESS} has no commit {pin}" in done.stderr
        assert [path.name for path in (tmp_path / place).iterdir()] == ["build.sh"]


def test_a_whole_commit_is_no_tag_of_a_repository_with_longer_hashes(tmp_path: Path) -> None:
    pin = f"{1:040x}"
    (tmp_path / "upstream").mkdir()
    for words in (["init", "--object-format=sha256"], ["commit", "--allow-empty", "-m", "a"]):
        subprocess.run(["git", *IDENTITY, *words], cwd=tmp_path / "upstream", check=True, capture_output=True)
    subprocess.run(["git", "update-ref", f"refs/tags/{pin}", "HEAD"], cwd=tmp_path / "upstream", check=True)
    done = build(tmp_path / "job", pin)
    assert done.returncode == 1 and f"{ADDRESS} has no commit {pin}" in done.stderr


def test_the_whole_hash_of_a_tag_is_that_of_its_commit(tmp_path: Path, revisions: dict[str, str]) -> None:
    def git(*words: str) -> str:
        command = ["git", *IDENTITY, *words]
        return subprocess.run(command, cwd=tmp_path / "upstream", check=True, capture_output=True, text=True).stdout

    git("tag", "-a", "-m", "a", "v2.0", "fix/solver")
    done = build(tmp_path / "job", git("rev-parse", "v2.0").strip().upper())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "job" / "solver" / "made").read_text() == revisions["fix/solver"]
