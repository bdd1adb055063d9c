"""Effects of levers: built-in kinds, and one of another distribution from its data to a real job."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import plugins
from modak_deploy.catalogue import effects
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.effects import Use
from modak_deploy.catalogue.lever import Lever
from modak_deploy.containers.location import argument
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.extensions import LEVER_EFFECTS
from modak_deploy.images.ensure import Wish
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import launching
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.launch.config import parse
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.changes import with_launch
from modak_deploy.performance.records import Table
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.local import LocalTransport

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLUGIN = plugins.DATA / "priority"


def lever(**keys: Any) -> Lever:
    return Lever.model_validate({"name": "x", "group": "g", "summary": "s", **keys})


def catalogue(folder: Path, **keys: Any) -> Path:
    """Write a catalogue with one lever into a folder."""
    item = {"name": "x", "group": "g", "summary": "s", **keys}
    groups = [{"name": "g", "summary": "s"}]
    (folder / "levers.yaml").write_text(yaml.safe_dump({"version": 1, "groups": groups, "levers": [item]}))
    return folder


@pytest.fixture
def priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The distribution modak-priority, installed; yields a catalogue with its lever."""
    plugins.install(PLUGIN, tmp_path / "site-packages", monkeypatch)
    (tmp_path / "catalogue").mkdir()
    shutil.copy(PLUGIN / "levers.yaml", tmp_path / "catalogue")
    yield tmp_path / "catalogue"
    sys.modules.pop("modak_priority", None)
    for cached in (effects._class, effects._reader):
        cached.cache_clear()


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    """Return the function that plans a program with a lever of a catalogue."""

    def make(folder: Path, name: str, *argv: str, **job: Any) -> Plan:
        document = {
            "application": {"name": "probe", "type": "hpc", "executable": argv[0], "arguments": list(argv[1:])},
            "target": {
                "name": "here",
                "workspace": str(tmp_path / "work"),
                "polling": {"first": 0.1, "maximum": 0.2},
            },
            "request": {"catalogue": [str(folder)], "require_levers": [name]},
            "job": job,
        }
        deployment = parse_deployment(document, origin="test")
        return plan_deployment(deployment, LocalTransport(), search=[tmp_path], now=datetime(2026, 1, 1, tzinfo=UTC))

    return make


def output_of(plan: Plan) -> str:
    """Run the Plan's job on this machine and return what it printed."""
    jobs = Jobs(LocalTransport(), timeouts=Timeouts(settle=1.0))
    present = jobs.present(job_request(plan))
    (result,) = jobs.wait([present])
    text = (Path(result.directory) / "output.log").read_text()
    assert result.state == "completed", text
    return text


def test_a_lever_has_all_its_effects() -> None:
    made = lever(
        threads=4, environment={"N": "{threads}", "A": "b"}, preload="libx.so", launch="live", effects={"prefix": ["p"]}
    )
    assert [effect.name for effect in made.all_effects] == ["threads", "environment", "preload", "launch", "prefix"]
    assert (made.run.environment, made.run.threads) == ({"N": "4", "A": "b"}, 4)
    assert (made.run.preload, made.run.launch, made.run.prefix) == (["libx.so"], "live", ["p"])
    assert made.variables() == {"N": "4", "A": "b", "LD_PRELOAD": "libx.so"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"prefx": ["a"]}, r"levers\.yaml:5: levers\[0\]: effects: the kind 'prefx' not found; did you mean 'prefix'"),
        ({"prefix": []}, r"effects\.prefix: list should have at least 1 item"),
        ({"prefix": "numactl"}, r"effects\.prefix: input should be a valid list"),
        ({"packing": "xz"}, r"effects\.packing: input should be 'gzip', 'zstd', 'lz4' or 'none'"),
        ({"session": {"__class__": 1}}, r"effects\.session\.__class__"),
        ({"session": {"intra_op_num_threads": -1}}, r"effects\.session\.intra_op_num_threads"),
        ({"arguments": [1]}, r"effects\.arguments\.0: input should be a valid string"),
        ({"preload": "liba.so"}, "'preload' is a key of the lever itself; write it there"),
    ],
    ids=["unknown", "empty", "text", "packing", "option", "value", "number", "short"],
)
def test_a_faulty_effect_is_one_sentence(tmp_path: Path, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        _ = load_catalogue([catalogue(tmp_path, effects=given)]).levers


@pytest.mark.parametrize(
    ("keys", "use", "fault"),
    [
        ({"launcher": "import_first.py"}, Use(is_script=False), "it starts a Python script"),
        ({"launch": "live"}, Use(launch_fault="it needs Python 3"), "it needs Python 3"),
        ({"effects": {"prefix": ["numactl"]}}, Use(ranks=2), "not supported for MPI ranks"),
        ({"effects": {"packing": "lz4"}}, Use(packings=("gzip",)), "it packs an image by lz4, and no image file"),
        ({"effects": {"session": {"a": 1}}}, Use(framework="jax"), "ONNX Runtime's sessions, and the program runs jax"),
        ({"effects": {"session": {"a": 1}}}, Use(framework="onnxruntime", launch_fault="old Python"), "old Python"),
    ],
    ids=["launcher", "launch", "prefix", "packing", "session", "session-launcher"],
)
def test_an_effect_says_why_it_cannot_be_used(keys: dict[str, Any], use: Use, fault: str) -> None:
    assert fault in (lever(**keys).fault(use) or "")
    assert lever(**keys).fault(Use(framework="onnxruntime", packings=("lz4",))) is None


def test_prefix_and_arguments_change_the_command_line(planned: Callable[..., Plan], tmp_path: Path) -> None:
    folder = catalogue(tmp_path, effects={"prefix": ["env", "A=b c"], "arguments": ["last;$(id)"]})
    plan = planned(folder, "x", "sh", "-c", 'echo "$A $1 $2"', "sh", "first")
    assert plan.chosen.argv[:3] == ["env", "A=b c", "sh"]
    assert output_of(plan) == "b c first last;$(id)\n"


def test_a_prefix_is_rejected_for_ranks(planned: Callable[..., Plan], tmp_path: Path) -> None:
    folder = catalogue(tmp_path, effects={"prefix": ["env"]})
    with pytest.raises(InfeasibleError, match="x starts the program by another one, which is not supported for MPI"):
        planned(folder, "x", "true", ranks=2, mpi_launcher="none")


def test_a_kind_of_another_distribution_runs(priority: Path, planned: Callable[..., Plan]) -> None:
    plan = planned(priority, "low-priority", "nice")
    assert (plan.chosen.levers, plan.chosen.argv) == (["low-priority"], ["nice", "-n", "7", "nice"])
    assert int(output_of(plan)) >= 7  # more where the tests themselves are nice


def test_without_its_distribution_the_kind_is_unknown(planned: Callable[..., Plan]) -> None:
    with pytest.raises(InputError, match=r"levers\.yaml.*effects: the kind 'priority' not found"):
        planned(PLUGIN, "low-priority", "nice")


def test_its_value_is_checked(priority: Path) -> None:
    with pytest.raises(InputError, match=r"effects\.priority: input should be less than or equal to 19"):
        _ = load_catalogue([catalogue(priority, effects={"priority": 20})]).levers


def test_the_builtin_kinds_are_registered() -> None:
    for kind in LEVER_EFFECTS.builtin:
        assert effects._class(kind).name == kind


IMAGE = {
    "name": "tools",
    "source": "base",
    "reference": "docker://registry.example.org/tools:1",
    "digest": "sha256:" + "a" * 64,
}


def image_plan(folder: Path, entry: dict[str, Any], **request: Any) -> Plan:
    catalogue(folder, effects={"packing": "lz4"})
    (folder / "images.yaml").write_text(yaml.safe_dump({"version": 1, "images": [entry]}))
    document = {
        "application": {"name": "probe", "type": "hpc", "executable": "tool", "image": "tools"},
        "target": {"name": "here"},
        "request": request,
    }
    facts = Facts.model_validate({"hostname": "here", "runtimes": {"apptainer": "1.4.5", "podman": "5.0.0"}})
    deployment = parse_deployment(document, origin="test")
    return make_plan(deployment, facts, [], catalogue=load_catalogue([folder]), now=NOW, measurements=Table([]))


def test_a_packed_image_is_a_file_of_its_own(tmp_path: Path) -> None:
    usual = image_plan(tmp_path, IMAGE, runtimes=["apptainer"])
    packed = image_plan(tmp_path, IMAGE, runtimes=["apptainer"], require_levers=["x"])
    assert usual.chosen.image is not None and packed.chosen.image is not None
    assert (usual.chosen.image.packing, packed.chosen.image.packing) == (None, "lz4")
    paths = [argument(plan.chosen.image, "apptainer", "/images") for plan in (usual, packed) if plan.chosen.image]
    assert paths[1] == paths[0].replace(".sif", "-lz4.sif")
    assert Wish("apptainer", "gzip").arguments(packed.chosen.image) == "-comp lz4"
    assert Wish("apptainer", "gzip").arguments(usual.chosen.image) == ""
    assert packed.fingerprint() != usual.fingerprint()


@pytest.mark.parametrize(
    ("entry", "runtime"),
    [(IMAGE, "podman"), ({**IMAGE, "reference": "oras://registry.example.org/tools:1"}, "apptainer")],
)
def test_an_image_that_is_no_file_made_here_cannot_be_packed(
    tmp_path: Path, entry: dict[str, Any], runtime: str
) -> None:
    with pytest.raises(InfeasibleError, match="x packs an image by lz4, and no image file is made here"):
        image_plan(tmp_path, entry, runtimes=[runtime], require_levers=["x"])


def test_session_options_reach_the_launcher(tmp_path: Path) -> None:
    folder = catalogue(tmp_path, effects={"session": {"intra_op_num_threads": 1, "execution_mode": "ORT_PARALLEL"}})
    (tmp_path / "infer.py").write_text("import onnxruntime\n")
    application = {
        "name": "probe",
        "type": "ai_inference",
        "script": "infer.py",
        "framework": {"name": "onnxruntime"},
        "workload": {"model": "resnet50"},
    }
    document = {
        "application": application,
        "target": {"name": "here"},
        "request": {"require_levers": ["x"], "trials": "none"},
    }
    facts = Facts(hostname="here", python="/usr/bin/python3", packages={"python": "3.12.1", "onnxruntime": "1.22.0"})
    deployment = parse_deployment(document, origin="test")
    plan = make_plan(deployment, facts, [], catalogue=load_catalogue([folder]), now=NOW, measurements=Table([]))
    assert plan.chosen.launch is not None
    assert plan.chosen.launch.session == {"intra_op_num_threads": 1, "execution_mode": "ORT_PARALLEL"}
    request = job_request(plan)
    config = parse(json.loads(launching.files(request)[launching.CONFIG]))
    assert config.levers == ["onnxruntime-options"]
    assert config.settings == {"onnxruntime-options": plan.chosen.launch.session}
    less = plan.chosen.launch.model_copy(update={"session": {"intra_op_num_threads": 2}})
    assert with_launch(plan, less).fingerprint() != plan.fingerprint()
