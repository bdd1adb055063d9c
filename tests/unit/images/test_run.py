"""The command lines are compared whole; the script that enters a container is run by a real shell."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest

from modak_deploy.containers.run import environment_pattern, wrap
from modak_deploy.errors import InputError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import launching
from modak_deploy.model.plan import Launch, Plan

DIGEST = "sha256:" + "0123456789abcdef" * 4
SIF = "/images/tensorflow_tensorflow_2.1.0-0123456789abcdef.sif"
ARGV = ["python3", "train.py", "--name", "a b;$(id)"]
HOW = {"apptainer": "APPTAINERENV_", "singularity": "SINGULARITYENV_", "podman": "--env", "docker": "--env"}


def image(accelerator: str | None = None) -> dict[str, object]:
    return {"reference": "docker://tensorflow/tensorflow:2.1.0", "digest": DIGEST, "accelerator": accelerator}


def run_of(plan: Plan) -> list[str]:
    """Return the runtime's own command, checking what stands before it."""
    line = wrap(job_request(plan), ARGV, directory="/jobs/one", images="/images")
    assert line[:2] == ["sh", "-c"]
    assert line[3] == "modak-enter"
    assert line[4] == HOW.get(plan.chosen.runtime, "unset")
    assert line[-len(ARGV) :] == ARGV
    accelerator = plan.chosen.image.accelerator if plan.chosen.image else None
    assert line[6:9] == [str(len(ARGV)), "0", accelerator or ""]
    return line[9 : -len(ARGV)]


def test_native_runs_the_command_as_it_is(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"runtime": "native", "image": None})
    assert wrap(job_request(plan), ARGV, directory="/jobs/one", images="/images") == ARGV


def test_apptainer(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"runtime": "apptainer"}, {"binds": ["/scratch"]})
    assert run_of(plan) == [
        "apptainer",
        "exec",
        "--cleanenv",
        "--bind=/jobs/one",
        "--bind=/scratch",
        "--pwd=/jobs/one/work",
        "--env=PYTHONNOUSERSITE=1",
        SIF,
    ]


def test_singularity_of_any_age(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"runtime": "singularity", "preload": ["libx.so"]})
    assert run_of(plan) == [
        "env",
        "SINGULARITYENV_PYTHONNOUSERSITE=1",
        "SINGULARITYENV_LD_PRELOAD=libx.so",
        "singularity",
        "exec",
        "--cleanenv",
        "--bind=/jobs/one",
        "--pwd=/jobs/one/work",
        SIF,
    ]


@pytest.mark.parametrize(("vendor", "flag"), [("nvidia", "--nv"), ("amd", "--rocm")])
def test_apptainer_shows_the_gpus_of_the_vendor_that_the_image_is_for(
    make_plan: Callable[..., Plan], vendor: str, flag: str
) -> None:
    command = run_of(make_plan({"image": image(vendor)}))
    assert {"--nv", "--rocm"} & set(command) == {flag}


def test_podman(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"runtime": "podman", "preload": ["libtcmalloc_minimal.so.4", "libx.so"]})
    assert run_of(plan) == [
        "podman",
        "run",
        "--rm",
        "--network=host",
        "--volume=/dev/shm:/dev/shm",
        "--security-opt=label=disable",
        "--entrypoint=",
        "--user=0:0",
        "--pull=never",
        "--ulimit=host",
        "--volume=/jobs/one:/jobs/one",
        "--workdir=/jobs/one/work",
        "--env=HOME=/tmp",
        "--env=PYTHONNOUSERSITE=1",
        "--env=LD_PRELOAD=libtcmalloc_minimal.so.4:libx.so",
        f"docker.io/tensorflow/tensorflow@{DIGEST}",
    ]


def test_docker_and_gpus(make_plan: Callable[..., Plan]) -> None:
    assert "--gpus=all" in run_of(make_plan({"runtime": "docker", "image": image("nvidia")}))
    assert "--device=/dev/kfd" in run_of(make_plan({"runtime": "docker", "image": image("amd")}))
    assert "--device=nvidia.com/gpu=all" in run_of(make_plan({"runtime": "podman", "image": image("nvidia")}))
    assert "--device=/dev/kfd" in run_of(make_plan({"runtime": "podman", "image": image("amd")}))


def test_charliecloud(make_plan: Callable[..., Plan]) -> None:
    assert run_of(make_plan({"runtime": "charliecloud"}, {"binds": ["/scratch"]})) == [
        "ch-run",
        "--set-env",
        "--bind=/jobs/one:/mnt/0",
        "--bind=/scratch",
        "--cd=/mnt/0/work",
        "--set-env=PYTHONNOUSERSITE=1",
        SIF.replace(".sif", ".sqfs"),
        "--",
    ]
    with pytest.raises(InputError, match="charliecloud does not show GPUs"):
        run_of(make_plan({"runtime": "charliecloud", "image": image("nvidia")}))


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("apptainer", {"--bind=/jobs/one", "--bind=/local/x", "--pwd=/local/x"}),
        ("podman", {"--volume=/jobs/one:/jobs/one", "--volume=/local/x:/local/x", "--workdir=/local/x"}),
        ("charliecloud", {"--bind=/jobs/one:/mnt/0", "--bind=/local/x:/mnt/1", "--cd=/mnt/1"}),
    ],
)
def test_another_working_directory_is_shown_too(make_plan: Callable[..., Plan], runtime: str, words: set[str]) -> None:
    line = wrap(
        job_request(make_plan({"runtime": runtime})), ARGV, directory="/jobs/one", images="/images", work="/local/x"
    )
    assert words <= set(line)


@pytest.mark.parametrize("path", ["/a,b", "/a:b", "/a/../b", "relative", "/a\nb"])
def test_paths_that_a_runtime_would_split_are_refused(make_plan: Callable[..., Plan], path: str) -> None:
    with pytest.raises(InputError, match="cannot be shown to a container"):
        wrap(
            job_request(make_plan({}, {"binds": [path]} if "\n" not in path else {})),
            ARGV,
            directory=path,
            images="/images",
        )


def test_a_container_without_image_or_digest_is_refused(make_plan: Callable[..., Plan]) -> None:
    with pytest.raises(InputError, match="names no image"):
        run_of(make_plan({"image": None}))
    with pytest.raises(InputError, match="not pinned"):
        run_of(make_plan({"image": {"reference": "docker://a/b"}}))


def enter(how: str, names: set[str], environment: dict[str, str], *command: str) -> str:
    script = files("modak_deploy.containers").joinpath("data/enter.sh").read_text()
    return subprocess.run(
        ["/bin/sh", "-c", script, "modak-enter", how, environment_pattern(names), "0", "0", "", *command],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


HOST = {
    "PMI_RANK": "3",
    "SLURM_PROCID": "3",
    "SLURMD_NODENAME": "n1",
    "OMPI_MCA_btl": "tcp,self",
    "KERAS_BACKEND": "a 'b' \"c\" $(id) `id` \\ \nPMI_FALSE=1",
    "PYTHONPATH": "/host",
    "LD_LIBRARY_PATH": "/host",
    "NOT_PMI_RANK": "1",
}


def test_entering_apptainer_passes_what_was_asked_for_and_nothing_else() -> None:
    lines = enter("APPTAINERENV_", {"KERAS_BACKEND"}, HOST, "env", "-0").split("\0")
    passed = dict(line.split("=", 1) for line in lines if line.startswith("APPTAINERENV_"))
    assert passed == {
        "APPTAINERENV_PMI_RANK": "3",
        "APPTAINERENV_SLURM_PROCID": "3",
        "APPTAINERENV_SLURMD_NODENAME": "n1",
        "APPTAINERENV_OMPI_MCA_btl": "tcp,self",
        "APPTAINERENV_KERAS_BACKEND": HOST["KERAS_BACKEND"],
    }
    assert "APPTAINER_NO_EVAL=1" in lines


def test_entering_podman_passes_names_after_the_verb() -> None:
    words = enter("--env", {"KERAS_BACKEND"}, HOST, "echo", "run", "--rm", "i", "a  b").rstrip("\n")
    assert words.startswith("run --env ")
    assert words.endswith(" --rm i a  b")
    assert set(words.removeprefix("run ").removesuffix(" --rm i a  b").split(" ")) == {
        "--env",
        "PMI_RANK",
        "SLURM_PROCID",
        "SLURMD_NODENAME",
        "OMPI_MCA_btl",
        "KERAS_BACKEND",
    }


def test_entering_charliecloud_removes_the_rest() -> None:
    lines = enter("unset", {"KERAS_BACKEND"}, HOST, "env", "-0").split("\0")
    names = {line.split("=", 1)[0] for line in lines if line}
    assert names - {"PWD", "_", "PATH"} == {
        "PMI_RANK",
        "SLURM_PROCID",
        "SLURMD_NODENAME",
        "OMPI_MCA_btl",
        "KERAS_BACKEND",
    }


def test_what_a_node_lacks_is_one_sentence_before_anything_starts(tmp_path: Path) -> None:
    def entered(gpus: str, *command: str) -> tuple[int, str]:
        script = files("modak_deploy.containers").joinpath("data/enter.sh").read_text()
        done = subprocess.run(
            ["/bin/sh", "-c", script, "modak-enter", "APPTAINERENV_", "^A$", "2", "0", gpus, *command],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    runtime = tmp_path / "runtime"
    runtime.write_text('#!/bin/sh\nwhile [ "$1" != image ]; do shift; done\nshift\n[ -e /x/here ] || PATH=$PATH "$@"\n')
    runtime.chmod(0o755)
    there, nowhere = f"--bind={tmp_path}:/mnt/0", "--bind=/nowhere/at all"
    assert entered("", str(runtime), there, "image", "echo", nowhere) == (0, f"{nowhere}\n")
    assert entered("", str(runtime), nowhere, "image", "echo", "x")[0] == 121
    assert "the folder /nowhere/at all" in entered("", str(runtime), nowhere, "image", "echo", "x")[1]
    code, said = entered("", str(runtime), there, "image", "no-such-program", "x")
    assert (code, "modak: the image has no program no-such-program (" in said) == (120, True)
    code, said = entered("", str(tmp_path / "none"), there, "image", "echo", "x")
    assert (code, "modak: the container cannot be started: " in said) == (119, True)
    if not Path("/dev/kfd").exists():
        code, said = entered("amd", str(runtime), there, "image", "echo", "x")
        assert (code, "this node has no such device: /dev/kfd is not there" in said) == (122, True)


@pytest.mark.parametrize(("runtime", "inside"), [("apptainer", "/jobs/one"), ("charliecloud", "/mnt/0")])
def test_the_launcher_starts_the_program_inside(
    runtime: str, inside: str, make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    plan = make_plan({"runtime": runtime, "launch": Launch(trials="live")})
    starter = partial(launching.starter, job_request(plan))
    line = wrap(job_request(plan), ARGV, directory="/jobs/one", images="/images", starter=starter)
    words = line[-len(ARGV) - 6 : -len(ARGV)]
    assert line[6:8] == [str(len(ARGV)), "6"]  # the program itself is looked for in the image
    assert words == [
        "sh",
        "-c",
        words[2],
        "modak-launch",
        f"{inside}/launch/modak_launch.zip",
        f"{inside}/launch/config.json",
    ]
    shown = [*words, "sh", "-c", 'printf "%s\\n" "$PYTHONPATH" "$MODAK_LAUNCH" "$@"', "sh", "a b"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "/own"}
    done = subprocess.run(shown, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{words[4]}:/own", words[5], "a b"]


@pytest.mark.parametrize(("program", "rank"), [("echo", "0"), ("/bin/echo", "0"), ("echo", "3")])
def test_an_image_without_a_shell_runs_its_program_without_the_launcher(
    program: str, rank: str, tmp_path: Path
) -> None:
    runtime = tmp_path / "runtime"
    runtime.write_text(
        """#!/bin/sh
        while [ "$1" != image ]; do shift; done
        shift
        [ "$1" != sh ] || { echo 'executable file "sh" not found in $PATH' >&2; exit 127; }
        exec "$@"
        """
    )
    runtime.chmod(0o755)
    script = files("modak_deploy.containers").joinpath("data/enter.sh").read_text()
    starter = ["sh", "-c", 'exec "$@"', "modak-launch"]
    done = subprocess.run(
        ["/bin/sh", "-c", script, "modak-enter", "APPTAINERENV_", "^A$", "3", "4", "", str(runtime), "image",
         *starter, program, "a  b", "image"],
        env={"PATH": os.environ["PATH"], "PMI_RANK": rank}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "a  b image\n"
    assert done.stderr == "modak: the launcher is not used: the image has no shell\n"


def test_tasks_of_an_array_of_grid_engine_know_which_they_are() -> None:
    host = {"SGE_TASK_ID": "3", "JOB_ID": "7", "NSLOTS": "4", "MY_JOB_ID": "1"}
    lines = enter("APPTAINERENV_", set(), host, "env", "-0").split("\0")
    passed = {line for line in lines if line.startswith("APPTAINERENV_")}
    assert passed == {"APPTAINERENV_SGE_TASK_ID=3", "APPTAINERENV_JOB_ID=7", "APPTAINERENV_NSLOTS=4"}
