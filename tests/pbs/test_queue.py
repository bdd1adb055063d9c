"""Jobs that wait, that can never run, and that are looked for."""

import re
import secrets

import pytest

from modak_deploy.errors import JobError
from pbs import Site


def test_held_and_released(site: Site) -> None:
    present = site.submit("echo >started", job={"begin": "2035-01-01T00:00:00"})
    assert site.jobs.see(present.job).state == "queued"
    site.ssh(f"qhold {present.job.id}")
    assert site.jobs.see(present.job).state == "held"
    site.ssh(f"qrls {present.job.id}; qalter -a 201001010000 {present.job.id}")
    assert site.wait(present).state == "completed"


def test_child_of_a_parent_that_ends_well(site: Site) -> None:
    parent = site.submit("sleep 3", name="parent")
    child = site.submit("true", name="child", job={"dependency": [f"afterok:{parent.job.id}"]})
    assert [site.wait(present).state for present in (parent, child)] == ["completed", "completed"]


def test_child_of_a_parent_that_fails(site: Site) -> None:
    parent = site.submit("sleep 3; exit 3", name="parent")
    child = site.submit("true", name="child", job={"dependency": [f"afterok:{parent.job.id}"]})
    assert site.wait(parent).state == "failed"
    result = site.wait(child)
    assert result.state == "dependency_never_satisfied", result.reason
    assert not site.in_queue(child.job.id)


def test_child_of_a_parent_that_has_failed(site: Site) -> None:
    parent = site.submit("exit 3", name="parent")
    assert site.wait(parent).state == "failed"
    dependency = {"dependency": [f"afterok:{parent.job.id}"]}
    if site.name == "torque-keep0":
        with pytest.raises(JobError, match="Invalid Job Dependency"):
            site.submit("true", name="child", job=dependency)
        return
    child = site.submit("true", name="child", job=dependency)
    result = site.wait(child)
    assert result.state == "dependency_never_satisfied", result.reason
    assert not site.in_queue(child.job.id), "it stays in the queue for ever"
    if site.torque:
        assert result.reason.endswith("it has been removed from the queue")
        assert site.jobs.see(child.job).state == "cancelled"


def test_child_of_a_parent_that_has_ended_well(site: Site) -> None:
    parent = site.submit("true", name="parent")
    assert site.wait(parent).state == "completed"
    dependency = {"dependency": [f"afterok:{parent.job.id}"]}
    if site.torque:
        with pytest.raises(JobError, match=r"Invalid Job Dependency.*leave out a 'dependency'"):
            site.submit("true", name="child", job=dependency)
        return
    result = site.end("true", name="child", job=dependency)
    if site.forgets:
        assert result.state == "dependency_never_satisfied", result.reason
        assert f"depends on afterok:{parent.job.id}" in result.reason
    else:
        assert result.state == "completed"


def test_more_than_there_is(site: Site) -> None:
    job = {"cores_per_rank": 64}
    if site.torque:
        with pytest.raises(JobError, match="cannot locate feasible nodes"):
            site.submit("true", job=job)
        return
    present = site.submit("true", job=job)
    result = site.wait(present)
    assert result.state == "never_starts"
    assert re.match("Can Never Run: .*; it has been removed from the queue", result.reason)
    assert not site.in_queue(present.job.id)


def test_seen_and_not_waited_for_it_is_said_to_be_still_there(site: Site) -> None:
    if site.torque:
        pytest.skip("Torque refuses such a job")
    present = site.submit("true", job={"cores_per_rank": 64})
    site.until(lambda: site.jobs.see(present.job).state == "never_starts", "nothing is said of the job")
    assert site.jobs.see(present.job).reason.endswith("; it is still in the queue")
    assert site.in_queue(present.job.id)
    assert site.jobs.absent(present.job.request)
    assert not site.in_queue(present.job.id)


def test_the_search_asks_for_few_of_many_jobs(site: Site) -> None:
    """Each id is one connection of OpenPBS's qstat, with the help of a setuid program on a privileged port."""
    others = 40
    site.ssh(f"cd; echo true >other.sh; for i in $(seq {others}); do qsub -h -N other other.sh; done >/dev/null")
    name = f"probe-{secrets.token_hex(3)}"
    present = site.submit("sleep 60", name=name)
    counted = 'echo "$#" >>/tmp/qstat.ids; exec "$real" "$@"'
    with site.instead("qstat", counted):
        place = site.jobs.find(present.job.request)
        found = site.jobs.doomed(present.job.request)
    assert place is not None
    assert found[0] == f"job {present.job.id}"
    words = sum(int(line) for line in site.root("cat /tmp/qstat.ids; rm /tmp/qstat.ids").split())
    assert site.torque or words < 20


def test_array_is_found_by_its_tag(site: Site) -> None:
    present = site.submit("sleep 60", job={"array": "0-1"})
    command = present.job.scheduler.find_command(present.job.spec.tag, present.job.spec.name)
    found = site.ssh(command)
    assert present.job.scheduler.parse_find(_done(found), present.job.spec.tag) == [present.job.id]
    assert site.jobs.absent(present.job.request)


def _done(text: str) -> object:
    from modak_deploy.transport.base import Completed

    return Completed(0, text, "")
