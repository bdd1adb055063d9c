"""Jobs whose image lacks the program, or whose node lacks what the container is to see: one sentence, and its code."""

import subprocess
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from containers import FAST, Containers, UserTransport
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.images.store import ImageStore
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.plan import Image
from modak_deploy.planning import plan_deployment, with_image

CASES = [
    ("apptainer", {"script": "job.py"}, {}, "", 120, "the image has no program python3"),
    ("podman", {"script": "job.py"}, {}, "", 120, "the image has no program python3"),
    ("charliecloud", {"script": "job.py"}, {}, "", 120, "the image has no program python3"),
    ("apptainer", {}, {"binds": ["/nowhere/data"]}, "", 121, "the folder /nowhere/data, which the container is to see"),
    ("podman", {}, {"binds": ["/nowhere/data"]}, "", 121, "the folder /nowhere/data, which the container is to see"),
    ("charliecloud", {}, {"binds": ["/nowhere"]}, "", 121, "the folder /nowhere, which the container is to see"),
    ("apptainer", {}, {}, "nvidia", 122, "this node has no such device: /dev/nvidiactl is not there"),
    ("podman", {}, {}, "amd", 122, "this node has no such device: /dev/kfd is not there"),
    ("apptainer", {}, {}, "", 0, ""),
    ("podman", {}, {}, "", 0, ""),
]


@pytest.fixture(scope="module")
def squashed(parts: Containers, debian: Image) -> Image:
    """The base system for Charliecloud."""
    images = parts.folder("squashed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
        store = ImageStore(UserTransport(parts, {"REQUESTS_CA_BUNDLE": str(parts.certificate)}), str(images))
        secure = Image(reference=f"docker://{parts.secure}/library/debian:12", digest=debian.digest)
        path = store.pull(secure, "charliecloud", login=parts.login, compression=FAST).path
    return Image(reference=path, digest=store.digest_of(path))


@pytest.mark.parametrize(("runtime", "application", "target", "gpus", "code", "says"), CASES)
def test_why_a_container_does_not_start_is_one_sentence(
    parts: Containers, runtime: str, application: dict[str, str], target: dict[str, object], gpus: str, code: int,
    says: str, debian: Image, sif: Path, squashed: Image, tmp_path: Path,
) -> None:  # fmt: skip
    if gpus and Path("/dev/nvidiactl" if gpus == "nvidia" else "/dev/kfd").exists():
        pytest.skip(f"this machine has a GPU of {gpus}")
    (tmp_path / "job.py").write_text("print(1)\n")
    image = {"apptainer": str(sif), "podman": debian.reference, "charliecloud": squashed.reference}[runtime]
    document = {
        "application": {
            "name": "lacking", "type": "hpc", "image": image,
            **(application or {"executable": "cat", "arguments": ["/etc/os-release"]}),
        },
        "target": {
            "name": "here", "workspace": str(parts.home / "lacking"), "runtimes": [runtime],
            "polling": {"first": 0.5, "maximum": 1.0}, **target,
        },
    }  # fmt: skip
    transport = UserTransport(parts)
    deployment = parse_deployment(document, origin="the test")
    plan = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
    plan = with_image(plan, transport, search=[tmp_path])
    if gpus:  # a node that had one when it was asked
        shown = plan.chosen.image.model_copy(update={"accelerator": gpus})
        plan = plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"image": shown})})
    jobs = Jobs(transport, timeouts=Timeouts(settle=2.0))
    jobs.absent(job_request(plan))
    present = jobs.present(job_request(plan), find_sources(plan.application, [tmp_path]))
    (result,) = jobs.wait([present], timeout=300)
    brought = jobs.fetch_results(present.job, result, tmp_path / "results")
    log = (Path(brought.result.results) / "output.log").read_text()
    assert (result.exit_code, says in log) == (code, True), log
    if code:
        assert f"and the application was not started (exit code {code}; the log names it)" in result.reason
    else:
        assert "bookworm" in log
    jobs.absent(job_request(plan))


@pytest.mark.parametrize(
    ("how", "runtime"), [("APPTAINERENV_", ["apptainer", "exec"]), ("--env", ["podman", "run", "--rm", "--rootfs"])]
)
def test_a_program_of_an_image_without_a_shell_runs_without_the_launcher(
    parts: Containers, how: str, runtime: list[str], tmp_path: Path
) -> None:
    image = parts.folder("no shell")
    for folder in ("dev", "proc", "sys", "tmp", "etc", "root", "home", "var/tmp"):
        (image / folder).mkdir(parents=True)
    source = tmp_path / "show.c"
    source.write_text("#include <stdio.h>\nint main(int n, char **v) { while (*++v) puts(*v); return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", str(image / "show"), str(source)], check=True)
    parts.own(image)
    script = files("modak_deploy.containers").joinpath("data/enter.sh").read_text()
    starter = ["sh", "-c", 'exec "$@"', "modak-launch"]
    shown = parts.run(
        "sh", "-c", script, "modak-enter", how, "^A$", "3", "4", "",
        *runtime, str(image), *starter, "/show", "a  b", "c",
    )  # fmt: skip
    assert "modak: the launcher is not used: the image has no shell\n" in shown
    assert shown.endswith("a  b\nc\n")
