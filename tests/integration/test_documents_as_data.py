"""Documents that the playbooks read as data: nothing in them is rendered, by Ansible or by a later step."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from endings import assert_unchanged, one_sentence
from sites import Site

OPTION = "-oProxyCommand=touch {folder}/proof"


def trap(folder: Path, number: int) -> str:
    """Return text that leaves a file behind where anything renders it."""
    return "{{ lookup('pipe', 'touch " + str(folder / f"proof.{number}") + "') }}"


def document(folder: Path) -> dict[str, Any]:
    """Return a document with a template in every place that takes free text."""
    traps = [trap(folder, number) for number in range(8)]
    return {
        "application": {
            "name": "literal",
            "type": "hpc",
            "executable": "sh",
            "arguments": ["-c", 'printf "%s\\n" "$1" "$VALUE" >out', "sh", traps[0]],
            "environment": {"VALUE": traps[1]},
            "outputs": ["out"],
        },
        "target": {"name": "here", "workspace": f"{folder}/space {traps[2]}", "modules": []},
        "job": {
            "pre_execution": f"printf '%s\\n' \"{traps[3].replace(chr(34), '')}\"",
            "post_execution": f": '{traps[4].replace(chr(39), '')}'",
            "environment": {"OTHER": traps[5]},
        },
    }


def proofs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("proof*"))


@pytest.mark.parametrize("several", [False, True], ids=["one-target", "several-targets"])
def test_templates_stay_text_through_a_whole_life(machine_site: Site, several: bool) -> None:
    folder = machine_site.folder
    data = document(folder)
    if several:
        data["other_targets"] = [{"name": "there", "workspace": f"{folder}/other {trap(folder, 6)}"}]
    machine_site.write(data)
    checked = machine_site.play("deploy", "--check", "--diff")
    assert checked.code == 0, checked.text
    deployed = machine_site.play("deploy", "-vv")
    assert deployed.code == 0, deployed.text
    assert (machine_site.results / "literal" / "out").read_text() == f"{trap(folder, 0)}\n{trap(folder, 1)}\n"
    assert_unchanged(machine_site.play("deploy"))
    undeployed = machine_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert proofs(folder) == []


def test_the_inventory_plugin_renders_nothing_of_a_document(machine_site: Site) -> None:
    folder = machine_site.folder
    target = {"name": "here", "host": "localhost", "workspace": f"/tmp/{trap(folder, 0)}", "modules": [trap(folder, 1)]}
    machine_site.write({"application": {"name": "a", "executable": "true"}, "target": target})
    (folder / "targets.modak.yml").write_text("plugin: modak.deploy.targets\nfiles: [deploy.yml]\n")
    arguments = ["-i", "targets.modak.yml", "-m", "debug", "-a", "var=modak_site", "all", "-c", "local"]
    with machine_site.started(["ansible", *arguments]) as running:
        ended = running.end(120)
    assert ended.code == 0, ended.text
    assert "lookup('pipe'" in ended.text
    assert proofs(folder) == []


def test_variables_without_templates_give_the_same_plan(machine_site: Site) -> None:
    """``-e deployment=a,b`` and ``-e @a -e @b``: the later file's sections replace the earlier one's as a whole."""
    folder = machine_site.folder
    first = {
        "application": {"name": "same", "type": "hpc", "executable": "true", "environment": {"A": "1"}},
        "job": {"wall_time": "5m", "threads": 2},
    }
    second = {"target": {"name": "here", "workspace": str(folder / "space")}, "job": {"wall_time": "10m"}}
    (folder / "first.yml").write_text(yaml.safe_dump(first))
    (folder / "second.yml").write_text(yaml.safe_dump(second))
    plans = {}
    for way, words in {
        "data": ["-e", "deployment=first.yml,second.yml"],
        "list": ["-e", '{"deployment": ["first.yml", "second.yml"]}'],
        "variables": ["-e", "@first.yml", "-e", "@second.yml"],
    }.items():
        results = folder / way
        command = ["ansible-playbook", "modak.deploy.deploy", *words, "-e", f"results={results}", "-e", "wait=false"]
        with machine_site.started(command) as running:
            ended = running.end(120)
        assert ended.code == 0, ended.text
        plans[way] = json.loads((results / "same" / "plan.json").read_text())
    command = ["modak", "plan", "first.yml", "second.yml", "--json"]
    done = subprocess.run(command, cwd=folder, env=machine_site.environment, capture_output=True, text=True, timeout=60)
    plans["command"] = json.loads(done.stdout)
    for plan in plans.values():
        del plan["created"]
    assert plans["data"] == plans["list"] == plans["variables"] == plans["command"]
    assert plans["data"]["job"]["threads"] is None


def test_what_a_document_says_of_the_run_counts_and_a_variable_overrides_it(machine_site: Site) -> None:
    machine_site.write(
        {"application": {"name": "steered", "type": "hpc", "executable": "true"},
         "target": {"name": "here", "workspace": str(machine_site.folder / "space")},
         "results": "elsewhere", "wait": False, "record": False}
    )  # fmt: skip
    deployed = machine_site.play("deploy")
    assert deployed.code == 0, deployed.text
    assert [path.name for path in (machine_site.folder / "elsewhere" / "steered").iterdir()] == ["plan.json"]
    deployed = machine_site.play("deploy", "-e", "wait=yes", "-e", "results=here")
    assert deployed.code == 0, deployed.text
    assert (machine_site.folder / "here" / "steered" / "job.json").is_file()


FAULTS: list[tuple[list[str], str]] = [
    (["-e", "forse=true"], "the extra variable 'forse' is unknown; did you mean 'force'?"),
    (["-e", "wait=maybe"], "wait: must be true or false, not 'maybe'"),
    (["-e", "deployment="], "the variable 'deployment' is empty; name a file"),
    (["-e", "secret_commands=maybe"], "secret_commands: must be true or false, not 'maybe'"),
    (["-e", '{"target": {"name": "x"}}'], "the variable 'target' is set as well as 'deployment'"),
    (["-e", "deployment=absent.yml"], "absent.yml: file not found"),
]


@pytest.mark.parametrize(("arguments", "sentence"), FAULTS, ids=[" ".join(words) for words, _ in FAULTS])
def test_misspelt_and_mistyped_variables(machine_site: Site, arguments: list[str], sentence: str) -> None:
    machine_site.write({"application": {"name": "never", "executable": "true"}})
    one_sentence(machine_site.play("deploy", *arguments), sentence)
    assert not machine_site.results.exists()


OF_OTHERS: list[tuple[str, str, str]] = [
    ("benchmark", "wait=false", "the extra variable 'wait' is not supported by 'benchmark'; leave it out"),
    ("benchmark", "benchmark_limt=1m", "unknown; did you mean 'benchmark_limit'?"),
    ("tune", "round=1", "the extra variable 'round' is unknown; did you mean 'rounds'?"),
]


@pytest.mark.parametrize(("playbook", "variable", "sentence"), OF_OTHERS, ids=[words for _, words, _ in OF_OTHERS])
def test_variables_of_playbooks_that_do_not_deploy(
    machine_site: Site, playbook: str, variable: str, sentence: str
) -> None:
    machine_site.write({"application": {"name": "never", "executable": "true"}})
    one_sentence(machine_site.play(playbook, "-e", variable), sentence)
    assert not machine_site.results.exists()


def test_what_a_group_says_of_other_playbooks_is_no_matter(machine_site: Site) -> None:
    """``wait`` of group_vars is for deployments: a benchmark of the same group goes on, as it does with documents."""
    (machine_site.folder / "group_vars").mkdir()
    (machine_site.folder / "group_vars" / "all.yml").write_text("wait: false\nforce: true\n")
    (machine_site.folder / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    others = {"target": {"name": "here"}, "other_targets": [{"name": "there"}]}
    machine_site.write({"application": {"name": "never", "executable": "true"}, **others})
    for playbook in ("benchmark", "tune"):  # what is refused comes after the variables
        one_sentence(machine_site.play(playbook, "-i", "hosts.yml"), "other_targets is not supported")


INVENTORY = "all: {hosts: {far: {ansible_host: 192.0.2.1}}}\n"
LIMITS = [
    ("none", "nowhere", False),
    ("none", "localhost,this-machine", True),
    ("hosts", "far", False),
    ("hosts", "localhost,this-machine,far", True),
]


@pytest.mark.parametrize(("inventory", "limit", "runs"), LIMITS, ids=[f"{given}-{limit}" for given, limit, _ in LIMITS])
def test_a_limit_that_leaves_out_this_machine_is_an_error(
    machine_site: Site, inventory: str, limit: str, runs: bool
) -> None:
    machine_site.write({"application": {"name": "limited", "executable": "true"}})
    (machine_site.folder / "hosts.yml").write_text(INVENTORY)
    hosts = ["-i", "hosts.yml"] if inventory == "hosts" else []
    ended = machine_site.play("deploy", "--check", "--limit", limit, *hosts)
    if not runs:
        one_sentence(ended, f"--limit '{limit}' leaves out localhost", f"add it: --limit 'localhost,{limit}'")
    assert runs == (ended.code == 0), ended.text


@pytest.mark.parametrize("playbook", ["benchmark", "tune", "undeploy"])
def test_no_playbook_ends_well_where_nothing_runs(machine_site: Site, playbook: str) -> None:
    machine_site.write({"application": {"name": "limited", "executable": "true"}})
    one_sentence(machine_site.play(playbook, "--limit", "nowhere"), "--limit 'nowhere' leaves out localhost")


def test_a_variable_of_the_user_passes(machine_site: Site) -> None:
    machine_site.write({"application": {"name": "free", "executable": "true"}})
    checked = machine_site.play("deploy", "--check", "-e", "site_color=blue")
    assert checked.code == 0, checked.text


HOSTS = ["{option}", "bell\a two words"]


@pytest.mark.parametrize("host", HOSTS, ids=["option", "control"])
def test_a_host_that_is_none_is_rejected_wherever_it_stands(machine_site: Site, host: str) -> None:
    folder = machine_site.folder
    host = host.replace("{option}", OPTION.format(folder=folder))
    target = {"name": "far", "type": "slurm", "host": host}
    data = {"application": {"name": "never", "executable": "true"}, "target": target}
    machine_site.write(data)
    words = "target.host: must be a host name or address"
    one_sentence(machine_site.play("deploy"), "deploy.yml:", words)
    one_sentence(machine_site.play("undeploy"), "deploy.yml:", words)
    command = ["ansible-playbook", "modak.deploy.deploy", "-e", "@deploy.yml"]
    with machine_site.started(command) as running:
        one_sentence(running.end(120), words)
    (folder / "targets.modak.yml").write_text("plugin: modak.deploy.targets\nfiles: [deploy.yml]\n")
    with machine_site.started(["ansible-inventory", "-i", "targets.modak.yml", "--list"]) as running:
        assert words in running.end(120).text
    site = {"all": {"hosts": {"far": {"modak_site": {"type": "slurm", "host": host}}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(site))
    data["target"] = {"name": "far"}
    data["other_targets"] = [target]
    machine_site.write(data)
    one_sentence(machine_site.play("deploy"), "other_targets[0].host: must be a host name or address")
    assert proofs(folder) == []


def test_an_option_that_the_target_does_not_support_is_located(machine_site: Site) -> None:
    path = machine_site.write(
        "application: {name: plain, type: hpc, executable: sh, arguments: [-c, 'true']}\n"
        "target: {name: here}\n"
        "job:\n"
        "  wall_time: 1h\n"
        "  qos: high\n"
    )
    ended = machine_site.play("deploy")
    one_sentence(ended, f"{path}:5: job.qos: not supported")


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("job: {nodes: 2}", "job.nodes: 2 nodes are requested, but a target of type machine is one"),
        ("target: {name: here, python: /no/python}", "target.python: /no/python is not a program on"),
        ("request: {require_levers: [tcmaloc]}", "request.require_levers: the catalogue has no lever 'tcmaloc'"),
    ],
    ids=["infeasible", "target", "input"],
)
def test_what_the_target_cannot_do_is_located(machine_site: Site, section: str, sentence: str) -> None:
    (machine_site.folder / "run.py").write_text("")
    path = machine_site.write(f"application: {{name: plain, script: run.py}}\n{section}\n")
    one_sentence(machine_site.play("deploy"), f"{path}:2: {sentence}")


def test_a_misspelt_option_of_a_module_names_the_module(machine_site: Site) -> None:
    task = {"modak.deploy.optimise": {"aplication": {"name": "own"}}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
    (machine_site.folder / "own.yml").write_text(yaml.safe_dump([play]))
    with machine_site.started(["ansible-playbook", "own.yml"]) as running:
        one_sentence(running.end(120), "Unsupported parameters for (modak.deploy.optimise) module: aplication.")
