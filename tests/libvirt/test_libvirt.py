"""deploy and undeploy on a real libvirt, with guests of QEMU.

A boot takes a minute and more where the processor is emulated, so that one test alone waits for one.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import yaml

from virtcloud import Controller, Host

BOOT = float(os.environ.get("MODAK_LIBVIRT_BOOT", "900"))
"""Seconds that a deployment with a boot may take."""


def recap(output: str, host: str) -> dict[str, int]:
    line = next(line for line in output.splitlines() if line.startswith(f"{host} "))
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 240) -> None:
    """Wait for something that a controller does; it must not end before."""
    end = time.monotonic() + seconds
    try:
        while not condition():
            assert process.poll() is None, f"it ended: {process.returncode}"
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.1)
    except BaseException:
        kill(process)
        raise


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)  # a call that is on its way still changes the host


def test_a_deployment_from_nothing_to_nothing(host: Host, controller: Controller) -> None:
    checked = controller.run("deploy", "--check")
    assert checked.returncode == 0, checked.stdout
    assert re.search(r"would create instance modak-[0-9a-f]{16}: lab\.small in lab, 0 EUR an hour", checked.stdout)
    assert host.is_empty()

    first = controller.run("deploy", seconds=BOOT)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "PRIVATE KEY" not in first.stdout + first.stderr
    results = controller.folder / "results" / "probe"
    assert (results / "out.txt").read_text() == "ran\n"
    assert "on an instance" in (results / "output.log").read_text()
    ((identity, state),) = host.domains().items()
    assert re.fullmatch("modak-[0-9a-f]{16}", identity)
    assert state == "running"
    assert host.volumes() == [f"{identity}-seed.iso", f"{identity}.qcow2"]
    mark = host.virsh("metadata", identity, "urn:modak:instance:1")
    assert f'deployment="{identity}"' in mark
    assert 'type="lab.small"' in mark
    # The host key is the one that cloud-init was given: ssh checked it against the controller's record.
    known = (controller.folder / "state" / "modak" / "cloud" / identity / "known_hosts").read_text().split()
    assert known[0] in host.virsh("domifaddr", identity)
    assert f'host_key="{known[1]} {known[2]}' in mark

    second = controller.run("deploy")
    assert second.returncode == 0, second.stdout
    assert all(recap(second.stdout, name)["changed"] == 0 for name in ("localhost", identity)), second.stdout

    # With the local state lost, the domain, its host key and the job are found again.
    for folder in ("state", "results"):
        shutil.rmtree(controller.folder / folder)
    again = controller.run("deploy")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (results / "out.txt").read_text() == "ran\n"
    assert list(host.domains()) == [identity]

    # The lease ends in the guest itself.
    command = ["ssh", "-n", "-i", str(controller.folder / "id"), "-o", "BatchMode=yes"]
    known_hosts = controller.folder / "state" / "modak" / "cloud" / identity / "known_hosts"
    ssh = [*command, "-o", f"UserKnownHostsFile={known_hosts}", f"debian@{known[0]}"]
    lease = "systemctl is-active modak-lease && sudo grep -c left= /usr/local/sbin/modak-lease"
    assert subprocess.run([*ssh, lease], capture_output=True, text=True).stdout.startswith("active\n")
    over = "echo 1 | sudo tee /var/lib/modak-lease && sudo systemctl restart --no-block modak-lease"
    subprocess.run([*ssh, over], check=True, capture_output=True)
    end = time.monotonic() + BOOT
    while host.domains()[identity] != "shut off":
        assert time.monotonic() < end, "its lease has not ended it"
        time.sleep(1)
    ended = controller.run("deploy")
    assert ended.returncode != 0
    assert "does not run; start it, or undeploy it first" in ended.stdout
    assert host.volumes() == [f"{identity}-seed.iso", f"{identity}.qcow2"]

    asked = controller.run("undeploy", "--check")
    assert f"would delete {identity}" in asked.stdout
    assert len(host.domains()) == 1
    for folder in ("state", "results"):
        shutil.rmtree(controller.folder / folder)
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert host.is_empty(), (host.domains(), host.volumes())
    nothing = controller.run("undeploy")
    assert nothing.returncode == 0, nothing.stdout
    assert recap(nothing.stdout, "localhost")["changed"] == 0


def test_a_controller_killed_before_the_start_and_again_after_it(host: Host, controller: Controller) -> None:
    process = controller.started("deploy")
    until(lambda: "shut off" in host.domains().values(), process)
    kill(process)
    ((identity, state),) = host.domains().items()
    assert state == "shut off"
    first = host.virsh("domuuid", identity)

    # Made anew, once the first controller's minute is over.
    process = controller.started("deploy")
    until(lambda: "running" in host.domains().values(), process)
    assert list(host.domains()) == [identity]
    assert host.virsh("domuuid", identity) != first
    second = host.virsh("domuuid", identity)
    kill(process)

    # Not made anew: it runs.
    process = controller.started("deploy")
    time.sleep(40)
    assert process.poll() is None
    kill(process)
    assert host.domains() == {identity: "running"}
    assert host.virsh("domuuid", identity) == second
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert host.is_empty(), (host.domains(), host.volumes())


def test_a_half_finished_deployment_and_one_half_deleted_leave_nothing(host: Host, controller: Controller) -> None:
    process = controller.started("deploy")
    until(lambda: len(host.volumes()) == 2, process)
    kill(process)
    (identity,) = host.domains()
    if host.domains()[identity] == "running":
        host.virsh("destroy", identity)
    host.virsh("undefine", identity)
    assert host.volumes() == [f"{identity}-seed.iso", f"{identity}.qcow2"]
    shutil.rmtree(controller.folder / "state")
    asked = controller.run("undeploy", "--check")
    assert f"would delete {identity}.qcow2" in asked.stdout
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert host.is_empty(), (host.domains(), host.volumes())


def test_the_next_type_is_taken(host: Host, controller: Controller) -> None:
    """lab.vast has more memory than the host, lab.broad more disk than the pool."""
    controller.describe(host, instance_types=["lab.vast", "lab.broad", "lab.large"])
    with (controller.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            controller.command("deploy"),
            cwd=controller.folder,
            env=controller.environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        until(lambda: "running" in host.domains().values(), process)
    kill(process)
    ((identity, _),) = host.domains().items()
    assert 'type="lab.large"' in host.virsh("metadata", identity, "urn:modak:instance:1")
    shown = (controller.folder / "log").read_text()
    assert "lab.vast: the host has no room for it" in shown
    assert "lab.broad: the storage pool has no room for it" in shown
    assert controller.run("undeploy").returncode == 0
    assert host.is_empty(), (host.domains(), host.volumes())


def test_no_type_can_be_had(host: Host, controller: Controller) -> None:
    controller.describe(host, instance_types=["lab.vast"])
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "no instance type that can do what was asked can be had now" in failed.stdout
    assert host.is_empty()


def test_a_host_without_kvm_says_so_and_nothing_is_left(host: Host, controller: Controller) -> None:
    controller.describe(host, emulation=False)
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "target.cloud.emulation" in failed.stdout
    assert host.is_empty()


def test_a_domain_that_cannot_be_started_leaves_nothing(host: Host, controller: Controller) -> None:
    """The network goes away between the listing and the start."""
    process = controller.started("deploy")
    until(lambda: "shut off" in host.domains().values(), process)
    host.virsh("net-destroy", "inside")
    try:
        assert process.wait(120) != 0
        assert host.is_empty(), (host.domains(), host.volumes())
        failed = controller.run("deploy")
        assert failed.returncode != 0
        assert "virsh net-start" in failed.stdout
    finally:
        host.virsh("net-start", "inside")
    assert host.is_empty()


def test_what_has_the_name_and_lacks_the_mark_is_left_alone(host: Host, controller: Controller) -> None:
    shown = controller.run("deploy", "--check").stdout
    identity = re.findall(r"would create instance (modak-[0-9a-f]{16})", shown)[0]
    definition = controller.folder / "own.xml"
    definition.write_text(
        f"<domain type='qemu'><name>{identity}</name><memory unit='MiB'>64</memory>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
    )
    host.virsh("define", str(definition))
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "the name is the deployment's, and its mark is missing" in " ".join(failed.stdout.split())
    gone = controller.run("undeploy")
    assert gone.returncode == 0, gone.stdout
    assert host.domains() == {identity: "shut off"}


def test_an_instance_of_a_node_is_listed_and_deleted_without_a_plan(host: Host, controller: Controller) -> None:
    controller.describe(host, deployment="shared")
    target = yaml.safe_load((controller.folder / "deploy.yml").read_text())["target"]
    tasks = [
        {"ansible.builtin.include_role": {"name": "modak.deploy.cloud", "tasks_from": part}}
        for part in ("ask", "release")
    ]
    shown = {
        "ansible.builtin.debug": {"msg": "listed {{ cloud_described.identity }} {{ cloud_listed.domains | length }}"}
    }
    play = {"hosts": "localhost", "gather_facts": False, "vars": {"cloud_target": target, "cloud_timeout": 60}}
    (controller.folder / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": [tasks[0], shown, tasks[1]]}]))

    def played() -> tuple[str, str, str]:
        command = [controller.command("deploy")[0], "-i", "hosts", "play.yml"]
        done = subprocess.run(
            command, cwd=controller.folder, env=controller.environment(), capture_output=True, text=True, timeout=300
        )
        identity, domains = re.findall(r"listed (modak-[0-9a-f]{16}) (\d)", done.stdout)[0] if done.stdout else ("", "")
        return identity, domains, "" if done.returncode == 0 else done.stdout + done.stderr

    identity, domains, fault = played()
    assert (domains, fault) == ("0", "")
    mark = f"<modak:instance xmlns:modak='urn:modak:instance:1' deployment='{identity}' type='lab.small' "
    (controller.folder / "own.xml").write_text(
        f"<domain type='qemu'><name>{identity}</name><metadata>{mark} created='2026-01-01T00:00:00+00:00' "
        "pool='images'/></metadata><memory unit='MiB'>64</memory>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
    )
    host.virsh("define", str(controller.folder / "own.xml"))
    host.virsh("vol-create-as", "images", f"{identity}.qcow2", "1M", "--format", "qcow2")
    assert played() == (identity, "1", "")
    assert host.is_empty(), (host.domains(), host.volumes())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine_image": "absent.qcow2"}, "virsh pool-refresh"),
        ({"vpc": "absent"}, "the network 'absent' of libvirt cannot be used"),
        ({"pool": "absent"}, "absent"),
    ],
)
def test_what_the_host_lacks_is_said(host: Host, controller: Controller, changes: dict[str, str], message: str) -> None:
    controller.describe(host, **changes)
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert message in " ".join(failed.stdout.split())
    assert host.is_empty()


def test_the_missing_python_package_is_reported_with_its_command(host: Host, controller: Controller) -> None:
    python = controller.folder / "bare"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(python)], check=True)
    (controller.folder / "hosts").write_text(
        f"localhost ansible_connection=local ansible_python_interpreter={python}/bin/python\n"
    )
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "pip install libvirt-python lxml pycdlib" in failed.stdout
    assert host.is_empty()


def test_memory_that_other_domains_have_is_not_given_twice(host: Host, controller: Controller) -> None:
    definition = controller.folder / "big.xml"
    total = int(re.findall(r"Memory size:\s+(\d+) KiB", host.virsh("nodeinfo"))[0])
    definition.write_text(
        f"<domain type='qemu'><name>somebodys</name><memory unit='KiB'>{total - 300 * 1024}</memory>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
    )
    host.virsh("create", str(definition), "--paused")
    failed = controller.run("deploy")
    assert failed.returncode != 0
    assert "the host has no room for it: lab.small" in " ".join(failed.stdout.split())
    assert host.domains() == {"somebodys": "paused"}
    assert host.volumes() == []
