"""The script itself, under every shell there is, with and without the tools that it asks."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from modak_deploy.discovery import parse_probe, probe_script
from modak_deploy.discovery.probe import split
from modak_deploy.errors import TargetError
from modak_deploy.model.application import Application
from modak_deploy.model.target import Facts, Target

SHELLS = [name for name in ("sh", "dash", "bash", "busybox", "ksh", "mksh", "yash", "posh") if shutil.which(name)]


def run(script: str, shell: str = "sh", **environment: str) -> str:
    command = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else [])]
    done = subprocess.run(
        [*command, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
    )
    assert done.returncode == 0
    assert done.stderr == ""
    return done.stdout


def discover(target: Target, shell: str = "sh", default: str | None = None, **environment: str) -> Facts:
    return parse_probe(run(probe_script(target, default_python=default), shell, **environment), target)


def only_from(folder: Path, script: str) -> str:
    """Return the script so changed that it finds programs in ``folder`` alone."""
    changed = re.sub(r"^PATH=.*$", f"PATH={folder}", script, flags=re.MULTILINE)
    assert changed != script
    return changed.replace("/etc/profile", f"{folder}/profile")


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shell", SHELLS)
def test_this_machine(shell: str) -> None:
    facts = discover(Target(name="here"), shell, default=sys.executable)
    assert facts.hostname
    assert facts.node.cores
    assert facts.node.memory
    assert facts.node.microarchitecture
    assert facts.python == sys.executable
    site = sysconfig.get_path("purelib")
    installed = {d.metadata["Name"].lower(): d.version for d in metadata.distributions(path=[site])}
    assert installed["pytest"] == facts.packages["pytest"]
    assert installed["pydantic"] == facts.packages["pydantic"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_that_has_nothing(shell: str, tmp_path: Path) -> None:
    for name in ("cat", "printf"):  # mksh has no printf of its own
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    text = run(only_from(tmp_path, probe_script(None)), shell)
    facts = parse_probe(text, None)
    assert facts.hostname is None or shell == "busybox"
    assert facts.scheduler is None
    assert facts.python is None
    assert facts.runtimes == {}


def test_a_scheduler_that_only_a_login_has_on_its_path(tmp_path: Path) -> None:
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "")
    program(tmp_path / "site" / "qsub", "echo pbs_version = 23.06.06")
    program(tmp_path / "site" / "pbsnodes", "true")
    (tmp_path / "profile").write_text(f"echo Welcome\nPATH={tmp_path}/site\n")
    assert parse_probe(run(only_from(tmp_path, probe_script(None))), None).scheduler == "openpbs"


def test_tools_that_fail_and_hang_after_their_answer(tmp_path: Path) -> None:
    program(tmp_path / "nvidia-smi", 'echo "NVIDIA H100, 81559, 550.54.15"; echo broken >&2; exit 9')
    program(tmp_path / "apptainer", "echo apptainer version 1.4.5")
    program(tmp_path / "uname", "cat; echo host")  # would wait for ever if it were given our input
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "")
    target = Target(name="t")
    facts = parse_probe(run(only_from(tmp_path, probe_script(target)), MODAK="1"), target)
    assert facts.node.accelerators[0].driver == "550.54.15"
    assert facts.runtimes == {"apptainer": "1.4.5"}


def test_a_gpu_that_is_divided_is_asked_for_its_parts(tmp_path: Path) -> None:
    listing = "GPU 0: NVIDIA H100 (UUID: GPU-1)\\n  MIG 1g.10gb     Device  0: (UUID: MIG-2)\\n"
    program(
        tmp_path / "nvidia-smi", f'case $1 in -L) printf "{listing}" ;; *) echo "NVIDIA H100, 81559, 550.5" ;; esac'
    )
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "")
    facts = parse_probe(run(only_from(tmp_path, probe_script(Target(name="t")))), Target(name="t"))
    assert [(gpu.model, gpu.memory) for gpu in facts.node.accelerators] == [("NVIDIA H100 MIG 1g.10gb", 10 * 2**30)]


def test_amds_tool_where_amds_packages_leave_it(tmp_path: Path) -> None:
    card = '{"card0": {"VRAM Total Memory (B)": "34342961152", "Card series": "AMD Instinct MI100"}}'
    program(tmp_path / "bin" / "rocm-smi", f"echo '{card}'")
    script = probe_script(Target(name="t"))
    facts = parse_probe(run(script.replace("/opt/rocm/", f"{tmp_path}/")), Target(name="t"))
    assert [gpu.model for gpu in facts.node.accelerators] == ["AMD Instinct MI100"]


def test_the_number_of_cores_is_not_that_of_threads() -> None:
    assert discover(Target(name="t"), OMP_NUM_THREADS="7777").node.cores != 7777


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("version", [1, 2, None])
def test_limits_of_the_session_are_those_of_its_control_groups(shell: str, version: int | None, tmp_path: Path) -> None:
    groups = "9:name=systemd:/\n4:cpu,cpuacct:/a/job_7\n3:memory:/a/job_7/step_0\n" if version == 1 else "0::/a/b\n"
    limits = {
        1: {
            "cpu/a/job_7/cpu.cfs_quota_us": "100000",
            "cpu/a/job_7/cpu.cfs_period_us": "100000",
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
            "memory/a/job_7/memory.limit_in_bytes": str(2**30),
            "memory/memory.limit_in_bytes": "9223372036854771712",
        },
        2: {"a/cpu.max": "100000 100000", "a/memory.max": str(2**30), "a/b/cpu.max": "max 100000"},
        None: {"cpu.max": "100000 100000", "memory/memory.limit_in_bytes": str(2**30)},
    }
    for name, content in limits[version].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    if version is not None:
        (tmp_path / "groups").write_text(groups)
    script = probe_script(Target(name="t")).replace("/sys/fs/cgroup", str(tmp_path))
    facts = parse_probe(run(script.replace("/proc/self/cgroup", str(tmp_path / "groups")), shell), Target(name="t"))
    assert (facts.node.cores, facts.node.memory) == (1, 2**30)


@pytest.mark.parametrize("shell", SHELLS)
def test_cores_that_share_a_physical_one(shell: str, tmp_path: Path) -> None:
    for number, siblings in enumerate(["0,2", "1,3", "0,2", "1,3", ""]):  # the last one is offline
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        if siblings:
            (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    (tmp_path / "status").write_text("Name:\tcat\nCpus_allowed_list:\t0,2\nMems_allowed_list:\t0\n")
    script = probe_script(Target(name="t")).replace("/sys/devices/system/cpu", str(tmp_path))
    answer = split(run(script.replace("/proc/self/status", str(tmp_path / "status")), shell))
    assert answer["siblings"].split() == ["0,2", "1,3", "0,2", "1,3"]
    assert answer.line("allowed") == "0,2"


@pytest.mark.parametrize("kind", ["slurm", "torque", "openpbs"])
def test_a_scheduler_that_is_not_there(kind: str, tmp_path: Path) -> None:
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "")
    target = Target(name="t", type=kind)
    assert parse_probe(run(only_from(tmp_path, probe_script(target))), target).scheduler is None


def test_slurm_is_asked_with_its_own_settings_alone(tmp_path: Path) -> None:
    program(tmp_path / "sbatch", "echo slurm 23.11.4")
    program(
        tmp_path / "sinfo",
        'test -z "$SINFO_FORMAT$SINFO_PARTITION" || exit 1\n'
        'case $* in *%n*) echo "$(/bin/uname -n)|b" ;; *) echo "b*|up|infinite|1|idle|4|1000|(null)|(null)" ;; esac',
    )
    for name in ("uname", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    target = Target(name="t", type="slurm")
    text = run(only_from(tmp_path, probe_script(target)), SINFO_FORMAT="%x", SINFO_PARTITION="a")
    facts = parse_probe(text, target)
    assert facts.partitions[0].name == "b"
    assert facts.node.cpu_features == facts.partitions[0].node.cpu_features != []


# --- the application's Python ------------------------------------------------------------------------------------


def package(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)


def system(top: Path) -> Path:
    """Make an installation as Debian's and return its Python."""
    program(top / "bin" / "python3.11", "exit 3")
    (top / "bin" / "python3").symlink_to("python3.11")
    package(top / "lib" / "python3" / "dist-packages", "numpy-1.24.2.egg-info", "own-1.0.dist-info")
    package(top / "local" / "lib" / "python3.11" / "dist-packages", "local_one-2.0.dist-info", "own-2.0.dist-info")
    package(top / "lib" / "python3.12" / "site-packages", "other-1.0.dist-info")
    return top / "bin" / "python3"


def venv(top: Path, home: Path, *, with_system: bool = False) -> Path:
    (top / "bin").mkdir(parents=True)
    (top / "bin" / "python3").symlink_to(home)
    package(top / "lib" / "python3.11" / "site-packages", "keras-3.1.dist-info")
    (top / "pyvenv.cfg").write_text(
        f"home = {home.parent}\ninclude-system-site-packages = {str(with_system).lower()}\nversion = 3.11.2\n"
    )
    return top / "bin" / "python3"


def packages(python: Path | str, **environment: str) -> dict[str, str]:
    return discover(Target(name="t", python=str(python)), **environment).packages


def test_python_of_the_system(tmp_path: Path) -> None:
    python = system(tmp_path / "usr")
    package(tmp_path / "home" / ".local" / "lib" / "python3.11" / "site-packages", "mine-1.0.dist-info")
    assert packages(python, HOME=str(tmp_path / "home")) == {
        "local-one": "2.0",
        "mine": "1.0",
        "numpy": "1.24.2",
        "own": "2.0",
    }


def test_python_of_an_environment(tmp_path: Path) -> None:
    home = system(tmp_path / "usr")
    assert packages(venv(tmp_path / "a b's", home)) == {"keras": "3.1"}
    both = packages(venv(tmp_path / "both", home, with_system=True))
    assert both == {"keras": "3.1", "local-one": "2.0", "numpy": "1.24.2", "own": "2.0"}


def test_environment_without_its_python(tmp_path: Path) -> None:
    """A bare login node shows what an environment holds, though it cannot run it."""
    python = venv(tmp_path / "venv", tmp_path / "not-here" / "python3")
    target = Target(name="t", type="slurm", python=str(python))
    parts = split(run(probe_script(target)))
    assert "python-runs" not in parts.parts
    assert parts["packages"].split() == ["keras-3.1.dist-info"]


@pytest.mark.parametrize("kind", ["machine", "slurm"])
@pytest.mark.parametrize("shell", SHELLS)
def test_python_that_the_user_may_not_execute(shell: str, kind: str) -> None:
    """A file without the right, a folder on the way, and an environment whose Python is somebody else's."""
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        home = system(folder / "usr")
        (folder / "closed").mkdir()
        (folder / "closed" / "python3").symlink_to(home)
        plain = program(folder / "plain", "exit 0")
        cases = {
            plain: plain,
            folder / "closed" / "python3": folder / "closed",
            venv(folder / "venv", folder / "closed" / "python3"): folder / "closed",
        }
        plain.chmod(0o644)
        (folder / "closed").chmod(0o000)
        user = 65534 if os.getuid() == 0 else None
        for python, place in cases.items():
            target = Target(name="t", type=kind, python=str(python))  # type: ignore[arg-type]
            words = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else []), "-c", probe_script(target)]
            environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
            done = subprocess.run(
                words, capture_output=True, text=True, check=True, user=user, env=environment, cwd="/"
            )
            answer = split(done.stdout)
            assert answer.line("python-forbidden") == str(place)
            if kind == "machine":
                with pytest.raises(
                    TargetError, match=f"^target.python: {python} cannot be executed on .*: {place} does"
                ):
                    parse_probe(done.stdout, target)
        (folder / "closed").chmod(0o700)


def test_path_files_add_folders(tmp_path: Path) -> None:
    python = venv(tmp_path / "venv", system(tmp_path / "usr"))
    package(tmp_path / "more", "extra-1.2.dist-info")
    path_file = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "more.pth"
    path_file.write_text(f"import sys\n{tmp_path}/more\nrelative\n")
    assert packages(python) == {"keras": "3.1", "extra": "1.2"}


def test_path_files_may_lack_the_end_of_their_last_line(tmp_path: Path) -> None:
    python = venv(tmp_path / "venv", system(tmp_path / "usr"))
    for name in ("one", "two"):
        package(tmp_path / name, f"{name}-1.0.dist-info")
        (tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / f"{name}.pth").write_text(f"{tmp_path}/{name}")
    assert packages(python) == {"keras": "3.1", "one": "1.0", "two": "1.0"}


def test_a_shim_is_asked_itself(tmp_path: Path) -> None:
    package(tmp_path / "far", "far-1.0.dist-info")
    assert packages(program(tmp_path / "shims" / "python", f"echo; echo {tmp_path}/far")) == {"far": "1.0"}


def test_python_in_the_home(tmp_path: Path) -> None:
    venv(tmp_path / "venv", system(tmp_path / "usr"))
    facts = discover(Target(name="t", python="~/venv/bin/python3"), HOME=str(tmp_path))
    assert facts.python == f"{tmp_path}/venv/bin/python3"
    assert facts.packages == {"keras": "3.1"}


def test_python_on_the_path(tmp_path: Path) -> None:
    system(tmp_path / "usr")
    target = Target(name="t")
    for name in ("cat", "readlink"):
        (tmp_path / "usr" / "bin" / name).symlink_to(shutil.which(name) or "")
    facts = parse_probe(run(only_from(tmp_path / "usr" / "bin", probe_script(target))), target)
    assert facts.python == f"{tmp_path}/usr/bin/python3"
    assert facts.packages["numpy"] == "1.24.2"


@pytest.mark.parametrize("python", ["/no/python", "/tmp", "$(touch /tmp/x)", "a'b\"c; exit 1", "no-such-python"])
def test_python_that_is_none(python: str) -> None:
    with pytest.raises(TargetError, match=r"^target\.python: .* is not a program on "):
        discover(Target(name="t", python=python))


def test_an_executable_wants_no_python(tmp_path: Path) -> None:
    target = Target(name="t", python="/no/python")
    text = run(probe_script(target, Application(name="a", executable="/bin/true")))
    assert parse_probe(text, target).python is None


def test_a_default_that_is_none_is_not_used() -> None:
    assert discover(Target(name="t"), default="/no/python").python is None
