"""Users and documents of the integration tests."""

import functools
import hashlib
import http.server
import io
import secrets
import tarfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import keras_parts
import rig
from cluster import Cluster
from rig import Rig
from sites import ClusterSite, Site

SOLVER = '#!/bin/sh\necho "rank $SLURM_PROCID of $SLURM_NTASKS: $*"\n'
CLUSTER = "cluster"
FIRST = (
    CLUSTER,
    "readme",
    "test_opera_blueprints",
    "test_service_kills",
    "test_service",
    "test_sodalite_older",
    "test_opera",
    "test_tosca_tools",
    "test_keras_trials",
    "test_one_blueprint",
    "test_keras_openvino",
    "test_kept_plans",
    "test_batch_job",
)
"""Groups that take longest: they are begun first, so that none is left alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Keep tests of the cluster in one worker: some of them stop its daemons. Others stay together by module."""
    ranks: dict[pytest.Item, int] = {}
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        marked = item.get_closest_marker("xdist_group")
        names = getattr(item, "fixturenames", ())
        on_cluster = CLUSTER in names and "real_slurm" not in names  # for which some modules use the same word
        group = marked.args[0] if marked else CLUSTER if on_cluster else item.path.stem
        if marked is None:
            item.add_marker(pytest.mark.xdist_group(group))
        ranks[item] = FIRST.index(group) if group in FIRST else len(FIRST)
    items.sort(key=lambda item: ranks.get(item, len(FIRST)))
    yield
    if config.getoption("loadgroup", False) and not all("@" in item.nodeid for item in items):
        raise pytest.UsageError(
            "pytest-xdist has not understood the groups of tests: they would take parts away from others"
        )


@pytest.fixture
def keras_program(tmp_path: Path) -> Callable[..., Any]:
    """Return the function that runs a program of Keras under the launcher."""
    return keras_parts.runner(tmp_path)


@pytest.fixture
def machine_site(tmp_path: Path, environment: dict[str, str]) -> Site:
    """A user who deploys on this machine."""
    return Site(tmp_path, environment, None)


@pytest.fixture
def slurm_site(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> Site:
    """A user who deploys on the real Slurm over ssh."""
    return Site(tmp_path, environment, real_slurm.inventory)


@pytest.fixture
def cluster_site(environment: dict[str, str], cluster: Cluster) -> Site:
    """A user who deploys from the client to the login node without Python."""
    return ClusterSite(cluster, environment)


@pytest.fixture
def on_cluster(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """Return the document of a shell line as the cluster's job, under a name that no run before had."""
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:30]

    def document(line: str, *, target: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
        return {
            "application": {
                "name": f"{stem}-{secrets.token_hex(4)}",
                "type": "hpc",
                "executable": "sh",
                "arguments": ["-c", line],
            },
            "target": {
                "name": "cluster",
                "type": "slurm",
                "host": "login",
                "polling": {"first": 0.5, "maximum": 2.0},
                **(target or {}),
            },
            "job": {"wall_time": "5m", **job},
        }

    return document


@pytest.fixture
def tiny_on_slurm(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """Return the document of the tiny application on the real Slurm, under a name that no run before had."""
    name = f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:30]}-{secrets.token_hex(4)}"

    def document(*arguments: str, **job: Any) -> dict[str, Any]:
        return {
            "application": {
                "name": name,
                "script": "tiny.py",
                "arguments": list(arguments),
                "outputs": ["metrics.json"],
                "metrics": "metrics.json",
            },
            "target": {
                "name": "rig",
                "type": "slurm",
                "host": "slurm-login",
                "python": "/usr/bin/python3",
                "polling": {"first": 0.5, "maximum": 2.0},
            },
            "job": {"wall_time": "5m", **job},
        }

    return document


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[str]:
    """Serve the solver's source; yields its address, pinned to its content."""
    data = SOLVER.encode()
    with tarfile.open(tmp_path / "solver.tar.gz", "w:gz") as made:
        entry = tarfile.TarInfo("solver/solve.sh.in")
        entry.size = len(data)
        made.addfile(entry, io.BytesIO(data))
    digest = hashlib.sha256((tmp_path / "solver.tar.gz").read_bytes()).hexdigest()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/solver.tar.gz#sha256={digest}"
        server.shutdown()
        thread.join()


@pytest.fixture
def torque(real_slurm: Rig) -> Iterator[Rig]:
    """The real Slurm, whose user finds its wrappers for Torque's commands on the path."""
    folder = rig.ask("torque").splitlines()[-1]
    perl = real_slurm.ssh(f"cd {folder} && find . -name Slurm.pm").strip().removeprefix("./").removesuffix("/Slurm.pm")
    real_slurm.ssh(f"echo 'export PATH={folder}/usr/bin:$PATH PERL5LIB={folder}/{perl}' >.bashrc")
    yield real_slurm
    real_slurm.ssh("rm .bashrc")
