"""Commands that need a connection refuse targets that none leads to, in place of using this machine."""

from pathlib import Path

import pytest

from modak_deploy.cli import main

TARGETS = {
    "kubernetes": "{type: kubernetes, name: cluster, node: {cores: 8}}",
    "cloud": "{type: cloud, name: aws, user: admin, private_key: key, "
    "cloud: {provider: aws, region: us-east-1, machine_image: ami-1, access: [192.0.2.0/24]}}",
}
COMMANDS = {
    "benchmark": ["benchmark", "deploy.yml"],
    "tune": ["tune", "deploy.yml"],
    "discover": ["discover", "--check", "deploy.yml"],
    "image": ["image", "gc", "-n", "-t", "deploy.yml"],
    "site": ["site", "check", "there"],
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_target_without_a_connection_is_not_taken_for_this_machine(
    command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODAK_SITES", raising=False)
    Path("run.py").touch()
    Path("deploy.yml").write_text(f"application: {{name: app, script: run.py}}\ntarget: {TARGETS[kind]}\n")
    of_site = TARGETS[kind].replace("name: cluster, ", "").replace("name: aws, ", "")
    Path("modak-sites.yaml").write_text(f"version: 1\nsites:\n  there: {{target: {of_site}}}\n")
    with pytest.raises(SystemExit) as ended:
        main(COMMANDS[command])
    message = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"target.type: the type {kind} of the target" in message
    assert "is not supported by" in message
    assert not Path("results").exists()
