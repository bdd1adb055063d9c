"""Values of secret_environment: where they come from, and where they may not appear."""

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import plan, requested
from modak_deploy import secret_values
from modak_deploy.containers.run import wrap
from modak_deploy.errors import InputError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.application import Application
from modak_deploy.model.plan import Image, Plan
from modak_deploy.optimiser.changes import with_secrets
from modak_deploy.secret_values import Reader, checked_values, environment_file, hashes_of
from modak_deploy.transport.local import LocalTransport

FILES = {
    "vault": b"$ANSIBLE_VAULT;1.1;AES256\n12",
    "empty": b"\n",
    "binary": b"\xff",
    "nul": b"hunter2\0",
    "long": b"hunter2" * 20000,
    "open": b"hunter2",
}
NASTY = "a 'b' \"c\" $(id) `id` \\ \n!x é"


def application(**secrets: Any) -> Application:
    return Application.model_validate({"name": "a", "executable": "true", "secret_environment": secrets})


def missing(_name: str) -> object:
    raise KeyError


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_one_line_end_is_not_part_of_a_value(tmp_path: Path) -> None:
    private(tmp_path / "token", "value\n\n")
    reader = Reader([tmp_path], {"x": NASTY}.__getitem__, commands=True)
    asked = application(A={"file": "token"}, B={"variable": "x"}, C={"command": ["printf", "%s\\n", "c c"]})
    assert reader.read(asked) == {"A": "value\n", "B": NASTY, "C": "c c"}


@pytest.mark.parametrize(
    ("secret", "sentence"),
    [
        ({"file": "absent"}, "TOKEN: 'absent' not found; searched in"),
        ({"file": "open"}, "open is open to other users; run: chmod 600"),
        ({"file": "vault"}, "is encrypted by Ansible's vault; use 'variable'"),
        ({"file": "empty"}, "TOKEN: the value is empty"),
        ({"file": "binary"}, "TOKEN: the value is not UTF-8 text"),
        ({"file": "nul"}, "TOKEN: the value holds a NUL"),
        ({"file": "long"}, "TOKEN: the value is longer than 100000 bytes"),
        ({"file": "/dev/zero"}, "not found"),
        ({"variable": "x"}, "TOKEN: the variable 'x' is not set"),
        ({"command": ["false"]}, "TOKEN: the command 'false' ended with exit code 1"),
        ({"command": ["/no/such"]}, "TOKEN: the command '/no/such' cannot be run: No such file"),
        ({"command": ["yes", "hunter2"]}, "TOKEN: the value is longer than 100000 bytes"),
        ({"command": ["sh", "-c", "echo hunter2; exit 3"]}, "TOKEN: the command 'sh' ended with exit code 3"),
    ],
)
def test_a_value_that_cannot_be_read_is_never_shown(secret: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    with pytest.raises(InputError) as caught:
        Reader([tmp_path], missing, commands=True).read(application(TOKEN=secret))
    assert sentence in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("line", ["sleep 30", "echo hunter2; exec >/dev/null; sleep 30", "sleep 30 & echo hunter2"])
def test_a_command_that_does_not_end(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_values, "_SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"TOKEN: the command 'sh' did not end within 0\.5 s$"):
        Reader([tmp_path], missing, commands=True).read(application(TOKEN={"command": ["sh", "-c", line]}))
    assert time.monotonic() - begun < 20


def test_a_document_alone_runs_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a command on the controller is run only where its user permits it"):
        Reader([tmp_path]).read(application(TOKEN={"command": ["touch", str(tmp_path / "proof")]}))
    assert not (tmp_path / "proof").exists()


def test_variables_are_known_to_ansible_only() -> None:
    with pytest.raises(InputError, match="the variable 'x' is known to Ansible only"):
        Reader().read(application(TOKEN={"variable": "x"}))
    with pytest.raises(InputError, match="the variable 'x' must be text; write its value in quotes"):
        Reader(variable=lambda _: 5).read(application(TOKEN={"variable": "x"}))


def deployed(tmp_path: Path, line: str, **more: Any) -> Plan:
    secrets = {"TOKEN": {"file": str(private(tmp_path / "token", NASTY + "\n"))}}
    asked = plan(["sh", "-c", line], tmp_path / "space", secret_environment=secrets, **more)
    return with_secrets(asked, hashes_of(asked, Reader()))


def test_another_value_makes_another_job(tmp_path: Path) -> None:
    first = deployed(tmp_path, "true")
    assert NASTY not in first.to_json()
    assert first.fingerprint() == deployed(tmp_path, "true").fingerprint()
    private(tmp_path / "token", "changed")
    second = with_secrets(first, hashes_of(first, Reader()))
    assert second.fingerprint() != first.fingerprint()
    with pytest.raises(InputError, match="TOKEN: the value has changed since the plan was made; make the plan again"):
        checked_values(first, Reader())


def test_the_checksum_of_the_file_tells_nothing_of_a_short_value() -> None:
    assert environment_file({"PIN": "1234"}) != environment_file({"PIN": "1234"})


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_every_shell_reads_the_values_as_they_are(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "file").write_bytes(environment_file({"TOKEN": NASTY}))
    words = [shell, *(["sh"] if shell == "busybox" else []), "-c", f'. {tmp_path}/file; printf %s "$TOKEN"']
    assert subprocess.run(words, capture_output=True, check=True).stdout.decode() == NASTY


def carry_out(tmp_path: Path, asked: Plan) -> tuple[Jobs, Path]:
    jobs = Jobs(LocalTransport(), timeouts=Timeouts(settle=0.0, lost=0.5, linger=0.0))
    present = jobs.present(job_request(asked), secrets=lambda: environment_file(checked_values(asked, Reader())))
    (result,) = jobs.wait([present])
    assert result.state == "completed"
    jobs.fetch_results(present.job, result, tmp_path / "results")
    return jobs, Path(present.job.spec.directory)


def holders(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if b"$(id)" in file.read_bytes() and file.name != "token"]


def test_the_job_has_the_value_and_its_folder_has_not(tmp_path: Path) -> None:
    line = 'printf %s "$TOKEN" | cksum >sum; ls -l ../state >listing'
    asked = deployed(tmp_path, line, outputs=["sum", "listing"], job={"pre_execution": 'test -n "$TOKEN"'})
    jobs, folder = carry_out(tmp_path, asked)
    expected = subprocess.run(["cksum"], input=NASTY.encode(), capture_output=True, check=True).stdout.decode()
    assert (tmp_path / "results" / "probe" / "sum").read_text() == expected
    assert "secret_environment" not in (tmp_path / "results" / "probe" / "listing").read_text()
    assert holders(tmp_path) == []
    assert jobs.absent(job_request(asked))
    assert not folder.exists()


def test_a_name_that_is_set_twice_is_refused(tmp_path: Path) -> None:
    jobs = Jobs(LocalTransport())
    with pytest.raises(InputError, match=r"application\.secret_environment\.TOKEN is set by job\.environment as well"):
        jobs.preview(job_request(deployed(tmp_path, "true", job={"environment": {"TOKEN": "x"}})))
    secrets = {"IFS": {"file": str(private(tmp_path / "token", "x"))}}
    with pytest.raises(InputError, match=r"application\.secret_environment\.IFS cannot be set: the shell keeps"):
        jobs.preview(requested(["true"], tmp_path / "space", secret_environment=secrets))
    with pytest.raises(ValueError, match="'TOKEN' is in 'environment' and in 'secret_environment'"):
        deployed(tmp_path, "true", environment={"TOKEN": "x"})


def test_a_site_template_must_read_the_secrets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="secret_environment cannot be honoured by this job template"):
        Jobs(LocalTransport()).preview(job_request(deployed(tmp_path, "true")), "#!/bin/sh\n{{ launch }}\n")


@pytest.mark.parametrize("runtime", ["apptainer", "singularity", "podman", "docker", "charliecloud"])
def test_only_the_name_is_on_a_container_runtimes_command_line(runtime: str, tmp_path: Path) -> None:
    asked = deployed(tmp_path, "true")
    image = Image(reference="docker://debian:12", digest="sha256:" + "0" * 64)
    request = replace(job_request(asked), runtime=runtime, image=image)
    words = wrap(request, ["true"], directory="/job", images="/images")
    assert any("|TOKEN" in word or "TOKEN|" in word for word in words)
    assert not [word for word in words if "$(id)" in word]
