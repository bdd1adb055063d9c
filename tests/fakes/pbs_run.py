"""Runs one job, as the fake server's daemon on a node: pbs_run.py DIALECT ID."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from pbs_server import SERVER, Job, Server


def main(dialect: str, name: str) -> None:
    server = Server(dialect)
    with server.locked():
        job = server.jobs[name]
    spool = server.folder / "spool"
    script = spool / f"{name}.SC"
    script.write_text(job.script)
    script.chmod(0o700)
    shell = job.options.get("shell", "/bin/sh")
    with (spool / f"{name}.OU").open("wb") as out, (spool / f"{name}.ER").open("wb") as err:
        process = subprocess.Popen(
            # Torque's shell is a login shell, and reads the script's path from its standard input.
            [f"-{Path(shell).name}"] if server.torque else [shell, script],
            executable=shell,
            env=environment(server, job),
            cwd=home(server),
            stdin=subprocess.PIPE if server.torque else subprocess.DEVNULL,
            stdout=out,
            stderr=out if job.options.get("join") else err,
            start_new_session=True,
        )
        if process.stdin:
            with suppress(BrokenPipeError):  # the shell may have closed it
                process.stdin.write(f"{script}\n".encode())
                process.stdin.close()
        status, comment = watch(server, job, process)
    copy(server, job)
    with server.locked():
        server.end(server.jobs[name], status, comment)


def home(server: Server) -> Path:
    """Return the user's home, where the profile of a login shell is."""
    folder = server.folder / "home"
    folder.mkdir(exist_ok=True)
    path = os.environ.get("FAKE_PBS_PATH", "/usr/local/bin:/usr/bin:/bin")
    (folder / ".profile").write_text(f"PATH={path}\nexport PATH\n")
    return folder


def environment(server: Server, job: Job) -> dict[str, str]:
    user = pwd.getpwuid(os.getuid())
    base = {"HOME": str(home(server)), "LOGNAME": user.pw_name, "USER": user.pw_name, "SHELL": "/bin/sh"}
    base |= {"PATH": os.environ.get("FAKE_PBS_PATH", "/usr/local/bin:/usr/bin:/bin"), "PBS_ENVIRONMENT": "PBS_BATCH"}
    ranks = int(job.options.get("ranks", 1))
    nodes = server.folder / "spool" / f"{job.id}.nodes"
    nodes.write_text(f"{SERVER}\n" * ranks)
    base |= {"PBS_JOBID": job.id, "PBS_JOBNAME": job.name, "PBS_QUEUE": job.queue, "PBS_NODEFILE": str(nodes)}
    base["PBS_O_WORKDIR"] = job.options["directory"]
    if job.task is not None:
        base["PBS_ARRAYID" if server.torque else "PBS_ARRAY_INDEX"] = str(job.task)
    if not server.torque:
        base |= {"NCPUS": str(ranks), "OMP_NUM_THREADS": str(ranks), "TMPDIR": "/var/tmp"}
    return {**job.options.get("environment", {}), **base, **job.variables}


def watch(server: Server, job: Job, process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Return the exit status that the server will show, and its comment."""
    told = 0.0
    over = False
    delay = job.options.get("kill_delay", server.settings["kill_delay"])
    while process.poll() is None:
        time.sleep(0.02)
        if not told and job.walltime and time.time() > job.started + job.walltime:
            told, over = time.time(), True
            tell(process, signal.SIGTERM)
        if not told and (server.folder / "spool" / f"{job.id}.delete").exists():
            told = time.time()
            tell(process, signal.SIGTERM)
        if told and time.time() > told + float(server.settings["kill_delay"] if over else delay):
            tell(process, signal.SIGKILL)
    # What the shell has left running. Torque sees no more than that its shell is gone, even where the script, its
    # child, is still about to end.
    tell(process, signal.SIGKILL)
    head = "Job started on Fri Nov 20" if server.torque else "Job run at Fri Nov 20 on (fake:ncpus=1)"
    if over:
        return (-11, head) if server.torque else (-29, f"{head} and exceeded resource walltime")
    if told:
        who = f"{pwd.getpwuid(os.getuid()).pw_name}@{SERVER}"
        return 271, head if server.torque else f"{head} and terminated by {who}"
    code = process.returncode
    status = code if code >= 0 else 128 - code
    return status, head if server.torque else f"{head} and {'failed' if status else 'finished'}"


def tell(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def copy(server: Server, job: Job) -> None:
    """Copy the files from the spool to where they belong; what has no place is lost, and nothing is said."""
    number = str(job.number) if job.task is None else f"{job.number}-{job.task}"
    wanted = {"OU": job.options.get("output") or f"{job.name}.o{number}"}
    if not job.options.get("join"):
        wanted["ER"] = job.options.get("error") or f"{job.name}.e{number}"
    for suffix, place in wanted.items():
        if job.task is not None:
            place = place.replace("^array_index^", str(job.task))
        with suppress(OSError):
            target = Path(job.options["directory"], place)
            shutil.copyfile(server.folder / "spool" / f"{job.id}.{suffix}", target)
            target.chmod(0o600)


if __name__ == "__main__":
    main(*sys.argv[1:])
