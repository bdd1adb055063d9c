"""A container runtime of another distribution: discovered, planned for, and a real job in a real image of it."""

import hashlib
import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import plugins
from modak_deploy.containers import registry
from modak_deploy.discovery import parse_probe, probe_script
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.images.ensure import Wish
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import launching
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.execution import Launch
from modak_deploy.model.plan import Plan
from modak_deploy.model.request import Request
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.local import LocalTransport


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The distribution modak-treerun, installed; yields an image of it with the program ``hello``."""
    folder = plugins.install(plugins.DATA / "treerun", tmp_path / "site-packages", monkeypatch)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    program = tmp_path / "hello"
    program.write_text('#!/bin/sh\necho "hello from $0 in $PWD, ${SECRET-none}, $GREETING"\n')
    program.chmod(0o755)
    image = tmp_path / "hello.tar"
    with tarfile.open(image, "w") as tar:
        tar.add(program, "bin/hello")
    yield image
    sys.modules.pop("modak_treerun", None)
    registry.get.cache_clear()


def plan_of(image: Path, folder: Path, **request: Any) -> Plan:
    (folder / "catalogue").mkdir(exist_ok=True)
    entry = {
        "name": "hello",
        "source": "base",
        "reference": str(image),
        "digest": f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}",
    }
    (folder / "catalogue" / "images.yaml").write_text(yaml.safe_dump({"version": 1, "images": [entry]}))
    document = {
        "application": {
            "name": "probe",
            "type": "hpc",
            "executable": "hello",
            "image": "hello",
            "environment": {"GREETING": "$(no command)"},
        },
        "target": {"name": "here", "workspace": str(folder / "work"), "polling": {"first": 0.1, "maximum": 0.2}},
        "request": {"runtimes": ["treerun"], "catalogue": [str(folder / "catalogue")], **request},
    }
    deployment = parse_deployment(document, origin="test")
    return plan_deployment(deployment, LocalTransport(), search=[folder], now=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_job_runs_in_an_image_of_it(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the submitter")
    plan = plan_of(runtime, tmp_path)
    assert (plan.chosen.runtime, plan.facts.runtimes["treerun"]) == ("treerun", "2.1")
    transport = LocalTransport()
    jobs = Jobs(transport, timeouts=Timeouts(settle=1.0))
    request = job_request(plan)
    present = jobs.present(request, realise=lambda directory: realise(transport, request, directory) and None)
    assert f"treerun --bind={present.job.spec.directory} " in present.script.replace("'", "")
    (result,) = jobs.wait([present])
    log = (Path(result.directory) / "output.log").read_text()
    assert result.state == "completed", log
    assert f"in {result.directory}/work, none, $(no command)" in log


def test_an_image_that_was_changed_is_not_run(runtime: Path, tmp_path: Path) -> None:
    plan = plan_of(runtime, tmp_path)
    runtime.write_bytes(runtime.read_bytes() + b"more")
    with pytest.raises(Exception, match="was changed: its hash is"):
        realise(LocalTransport(), job_request(plan), str(tmp_path / "work" / "runs" / "probe"))


def test_it_is_asked_for_only_where_it_is_named_or_nothing_is_known(runtime: Path) -> None:
    found = parse_probe(LocalTransport().run(probe_script(None), timeout=60).stdout, None)
    assert found.runtimes["treerun"] == "2.1"
    assert "runtime-treerun" not in probe_script(parse_deployment(DOCUMENT, origin="test").target)


def test_what_it_shares_with_the_target_is_a_matter_of_its_class(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(job_request(plan_of(runtime, tmp_path)), runtime="treerun")
    launch = Launch(levers=["pytorch-compile"])
    assert launching.cache(launch, request) == {}
    monkeypatch.setattr(type(registry.get("treerun")), "shows_workspace", True)
    assert launching.cache(launch, request) == {"cache": launching.CACHE}


def test_what_the_built_in_ones_share() -> None:
    runtimes = {name: registry.get(name) for name in RUNTIMES.builtin}
    assert {name for name, made in runtimes.items() if not made.as_user} == {"podman", "docker"}
    assert {name for name, made in runtimes.items() if made.shows_workspace} == {"apptainer", "singularity"}


def test_a_release_that_is_too_old(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERUN_VERSION", "1.9")
    with pytest.raises(InfeasibleError, match=r"treerun 1\.9 is too old: --bind takes 2\.0 or newer"):
        plan_of(runtime, tmp_path)


def test_a_target_cannot_name_a_runtime_that_is_not_installed(tmp_path: Path) -> None:
    answer = LocalTransport().run(probe_script(None), timeout=60).stdout
    forged = answer.replace("\n@@modak:end\n", "\n@@modak:runtime-other\nother 1.0\n@@modak:end\n")
    assert forged != answer
    assert "other" not in parse_probe(forged, None).runtimes


def test_names_are_checked_with_the_nearest_one(runtime: Path) -> None:
    assert Request(runtimes=["native", "treerun"]).runtimes == ["native", "treerun"]
    with pytest.raises(InputError, match=r"or 'treerun', not 'treerum'; did you mean 'treerun'\?"):
        parse_deployment({**DOCUMENT, "request": {"runtimes": ["treerum"]}}, origin="test")
    with pytest.raises(InputError, match=r"runtime: 'podmam' not found; did you mean 'podman'\?"):
        Wish(runtime="podmam")
    assert Request.model_json_schema()["properties"]["runtimes"]["anyOf"][0]["items"]["enum"][-1] == "treerun"


def test_without_its_distribution_the_name_is_unknown() -> None:
    with pytest.raises(InputError, match=r"or 'charliecloud', not 'treerun'"):
        parse_deployment({**DOCUMENT, "request": {"runtimes": ["treerun"]}}, origin="test")


def test_the_builtin_ones_are_whole() -> None:
    assert registry.by_preference(RUNTIMES.builtin) == ["apptainer", "singularity", "charliecloud", "podman", "docker"]
    for name in RUNTIMES.builtin:
        assert registry.get(name).name == name
        assert registry.get(name).sources


DOCUMENT = {"application": {"name": "probe", "type": "hpc", "executable": "hello"}, "target": {"name": "here"}}
