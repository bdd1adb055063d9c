"""The collection with the newest releases of ansible-core: ``nox``, or ``nox -s 'collection(ansible-core 2.21)'``.

Each session has modak and an ansible-core of its own; the other tests run with the one that the Python of `make setup`
permits. A release whose Python is not installed is skipped.
"""

import shutil
from pathlib import Path

import nox

RELEASES = {"2.20": "3.12", "2.21": "3.13"}
"""The two newest releases of ansible-core, and a Python that they run on."""
TESTS = ("tests/integration/test_own_plays.py", "tests/integration/test_several_hosts.py")
nox.options.default_venv_backend = "venv"
nox.options.envdir = ".build/nox"  # where no linter looks
nox.options.error_on_missing_interpreters = False


def install(session: nox.Session, release: str) -> None:
    """Install modak with a release of ansible-core."""
    session.install(f"ansible-core~={release}.0", ".")


@nox.session
@nox.parametrize(
    ("python", "release"),
    [nox.param(python, release, id=f"ansible-core {release}") for release, python in RELEASES.items()],
)
def collection(session: nox.Session, release: str) -> None:
    """Run plays, roles and modules of the installed collection, and read its documentation."""
    install(session, release)
    session.install("pytest>=8.4,<9.2", "pytest-xdist>=3.6", "hypothesis>=6.120")
    session.run("ansible-doc", "--type", "module", "modak.deploy.batch_job", silent=True)
    for playbook in sorted(Path("playbooks").glob("*.yml")):
        session.run("ansible-playbook", f"modak.deploy.{playbook.stem}", "--syntax-check", silent=True)
    session.run("pytest", *(session.posargs or TESTS))


@nox.session
@nox.parametrize(
    ("python", "release"),
    [nox.param(python, release, id=f"ansible-core {release}") for release, python in RELEASES.items()],
)
def sanity(session: nox.Session, release: str) -> None:
    """Run ansible-test sanity."""
    if shutil.which("git") is None:
        session.skip("ansible-test needs git")
    install(session, release)
    session.run("scripts/ansible_test_sanity.sh", external=True)
