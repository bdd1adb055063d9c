import base64
import json
import os
from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.images.credentials import Login, login_for


def encoded(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def keep(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize(
    ("where", "variables"),
    [
        ("auth.json", {"REGISTRY_AUTH_FILE": "auth.json"}),
        ("run/containers/auth.json", {"XDG_RUNTIME_DIR": "run"}),
        (".config/containers/auth.json", {}),
        ("conf/containers/auth.json", {"XDG_CONFIG_HOME": "conf"}),
        (".docker/config.json", {}),
        ("docker/config.json", {"DOCKER_CONFIG": "docker"}),
        (".apptainer/docker-config.json", {}),
        (".singularity/docker-config.json", {}),
    ],
)
def test_logins_are_found_where_the_tools_keep_them(tmp_path: Path, where: str, variables: dict[str, str]) -> None:
    keep(tmp_path / where, {"auths": {"r.example.org:5000": encoded("me", "a:b c")}})
    environment = {"HOME": str(tmp_path), **{key: str(tmp_path / value) for key, value in variables.items()}}
    assert login_for("r.example.org:5000", environment) == Login("me", "a:b c")
    assert login_for("other.example.org", environment) is None


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])
def test_docker_hub_goes_by_several_names(tmp_path: Path, key: str) -> None:
    keep(tmp_path / ".docker/config.json", {"auths": {key: encoded("me", "secret")}})
    assert login_for("docker.io", {"HOME": str(tmp_path)}) == Login("me", "secret")


@pytest.mark.parametrize("kept", [{"credHelpers": {"r.example.org": "mine"}},
                                  {"credsStore": "mine", "auths": {"r.example.org": {}}}])  # fmt: skip
def test_a_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: dict[str, object]) -> None:
    keep(tmp_path / ".docker/config.json", kept)
    program = tmp_path / "bin" / "docker-credential-mine"
    keep(program, '#!/bin/sh\nread -r host\necho "{\\"Username\\": \\"$host\\", \\"Secret\\": \\"s\\"}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert login_for("r.example.org", {"HOME": str(tmp_path)}) == Login("r.example.org", "s")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("not json", "not a JSON file"),
        ("[]", "does not hold a JSON object"),
        pytest.param("[" * 100_000, "not a JSON file", id="nested deeply"),
        ({"auths": ["r.example.org"]}, "has a 'auths' that is not a JSON object"),
        ({"credHelpers": 1}, "has a 'credHelpers' that is not a JSON object"),
        ({"auths": {"r.example.org": {"auth": "%%%"}}}, "log in to that registry again"),
        (
            {"auths": {"r.example.org": {"auth": base64.b64encode(b"nocolon").decode()}}},
            "log in to that registry again",
        ),
        ({"auths": {"r.example.org": {"auth": base64.b64encode(b"a\nb:c").decode()}}}, "log in to that registry again"),
        ({"credHelpers": {"r.example.org": "../evil"}}, "not the name of a program"),
        ({"credHelpers": {"r.example.org": "nowhere-to-be-found"}}, "does not answer"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_file(tmp_path: Path, content: object, says: str) -> None:
    path = tmp_path / ".docker/config.json"
    keep(path, content)
    with pytest.raises(InputError, match=says) as caught:
        login_for("r.example.org", {"HOME": str(tmp_path)})
    assert str(path) in str(caught.value)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(Login("me", "secret"))
    assert "secret" not in str(Login("me", "secret"))
