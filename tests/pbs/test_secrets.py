"""Secret environment variables on the real daemons: in the job, and in nothing that others can read."""

import subprocess
from dataclasses import replace

from modak_deploy.secret_values import environment_file
from pbs import Site

VALUE = "secret-4711 $(id) 'quoted'\nline two"
MARK = "secret-4711"


def test_a_secret_reaches_the_job_and_nothing_else(site: Site) -> None:
    line = 'printf %s "$TOKEN" | cksum >sum; ls ../state >listing; echo >started; sleep 4'
    request = replace(site.request(line), secret_environment=frozenset({"TOKEN"}))
    present = site.jobs.present(request, secrets=lambda: environment_file({"TOKEN": VALUE}))
    site.until_started(present)
    # What the server tells any user, what it keeps of the job, and the command lines of all processes while it runs.
    shown = site.root(f"qstat -f {present.job.id}")
    assert "Job_Name" in shown
    prefix = (site.daemons.folder / "etc" / f"prefix.{site.scheduler}").read_text().strip()
    kept = site.root(f"ls -d {prefix}/spool {prefix}/home 2>/dev/null || true").split()
    assert kept
    assert site.root(f"grep -rls -e secret[-]4711 {' '.join(kept)} || true") == ""
    shown += site.root("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert MARK not in shown
    assert site.wait(present).state == "completed"
    folder = site.folder(present)
    expected = subprocess.run(["cksum"], input=VALUE.encode(), capture_output=True, check=True).stdout.decode()
    assert (folder / "work" / "sum").read_text() == expected
    assert "secret_environment" not in (folder / "work" / "listing").read_text().split()
    assert not [file for file in folder.rglob("*") if file.is_file() and MARK.encode() in file.read_bytes()]
    site.jobs.absent(request)
    assert not folder.exists()
