"""The collection in a user's own plays: limits, tags, async, become, and hosts that cannot be reached."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

APPLICATION = {"name": "probe", "executable": "sh", "arguments": ["-c", "pwd >out"], "outputs": ["out"], "type": "hpc"}
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_user": "nobody"}


class User:
    """A user with an inventory of two hosts, one of which cannot be reached."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.target = {"name": "w", "workspace": f"{folder}/space", "polling": {"first": 0.2, "maximum": 1.0}}
        hosts = {"near": {"ansible_connection": "local"}, "gone": GONE}
        (folder / "inventory.yml").write_text(yaml.safe_dump({"workers": {"hosts": hosts}}))

    def run(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            ["ansible-playbook", "-i", "inventory.yml", *arguments],
            cwd=self.folder, env={**self.environment, "COLUMNS": "1000"}, text=True, capture_output=True, timeout=300,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def play(self, *tasks: dict[str, Any], hosts: str = "workers", arguments: tuple[str, ...] = (), **play: Any) -> Any:
        text = yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "tasks": list(tasks), **play}], sort_keys=False)
        (self.folder / "play.yml").write_text(text)
        return self.run("play.yml", *arguments)

    def role(self, kind: str = "include_role", apply: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
        given = {"name": "modak.deploy.application", **({"apply": apply} if apply else {})}
        variables = {"application_definition": APPLICATION, "application_target": self.target}
        return {f"ansible.builtin.{kind}": given, "vars": variables, **keywords}

    @property
    def jobs(self) -> list[Path]:
        return list(self.folder.glob("space/runs/*"))


@pytest.fixture
def user(tmp_path: Path, environment: dict[str, str]) -> User:
    return User(tmp_path, environment)


def test_an_unreachable_host_counts_as_unreachable_and_the_others_go_on(user: User) -> None:
    code, text = user.play(user.role())
    assert code == 4, text
    assert "unreachable=1 failed=0" in text
    assert "gone cannot be reached" in text
    assert "unreachable=0 failed=0" in text
    assert len(user.jobs) == 1


def test_ignore_unreachable_goes_on(user: User) -> None:
    code, text = user.play({"modak.deploy.target_info": {}, "ignore_unreachable": True}, hosts="gone")
    assert code == 0, text
    assert "ignored=1" in text


def test_a_rescue_can_ask_for_a_failure(user: User) -> None:
    block = {
        "block": [{"modak.deploy.target_info": {}, "vars": {"modak_unreachable_fails": True}}],
        "rescue": [{"ansible.builtin.debug": {"msg": "rescued: {{ ansible_failed_result.msg }}"}}],
    }
    code, text = user.play(block, hosts="gone")
    assert code == 0, text
    assert "rescued: gone cannot be reached" in text


@pytest.mark.parametrize("playbook", ["deploy", "undeploy"])
def test_a_limit_that_leaves_out_this_machine_is_refused(user: User, playbook: str) -> None:
    (user.folder / "deploy.yml").write_text(yaml.safe_dump({"application": APPLICATION, "target": user.target}))
    code, text = user.run(f"modak.deploy.{playbook}", "-e", "deployment=deploy.yml", "--limit", "near")
    assert code == 2, text
    assert "--limit 'near' leaves out localhost" in text
    assert not user.jobs


def test_a_limit_with_the_name_of_the_targets_host(user: User) -> None:
    target = {**user.target, "host": "near"}
    (user.folder / "deploy.yml").write_text(yaml.safe_dump({"application": APPLICATION, "target": target}))
    deploy = ("modak.deploy.deploy", "-e", "deployment=deploy.yml", "--limit")
    code, text = user.run(*deploy, "localhost,gone")
    assert code == 2, text
    assert "leaves out the target's host 'near'" in text
    assert not user.jobs
    code, text = user.run(*deploy, "localhost,near")
    assert code == 0, text
    assert len(user.jobs) == 1


def test_a_limit_in_an_own_play_of_a_group(user: User) -> None:
    code, text = user.play(user.role(), arguments=("--limit", "near"))
    assert code == 0, text
    assert "gone" not in text
    assert len(user.jobs) == 1
    code, text = user.play(user.role(), arguments=("--limit", "near"))
    assert (code, "changed=0" in text) == (0, True), text


@pytest.mark.parametrize(
    ("kind", "apply"), [("include_role", {"tags": ["train"]}), ("import_role", None)], ids=["include", "import"]
)
def test_tags(user: User, kind: str, apply: dict[str, Any] | None) -> None:
    code, text = user.play(user.role(kind, apply, tags=["train"]), hosts="near", arguments=("--tags", "other"))
    assert code == 0, text
    assert not user.jobs
    code, text = user.play(user.role(kind, apply, tags=["train"]), hosts="near", arguments=("--tags", "train"))
    assert code == 0, text
    assert len(user.jobs) == 1


def test_async_names_the_alternative(user: User) -> None:
    code, text = user.play({"modak.deploy.target_info": {}, "async": 60, "poll": 0}, hosts="near")
    assert code == 2, text
    assert "async is not supported" in text
    assert "modak.deploy.batch_job_wait" in text


def test_become_names_the_alternative_and_can_be_set_aside(user: User) -> None:
    code, text = user.play(user.role(), hosts="near", become=True)
    assert code == 2, text
    assert "apply: {become: false}" in text
    code, text = user.play(user.role(apply={"become": False}), hosts="near", become=True)
    assert code == 0, text
    assert len(user.jobs) == 1
