"""Fake qsub, qstat, qdel, qselect and pbsnodes: pbs.py torque|openpbs COMMAND ARGUMENT...; README.md says more."""

import datetime
import getopt
import os
import pwd
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from pbs_server import SERVER, Job, Server

USAGE = "usage: qsub [-a date_time] [-A account_string]\n"
OPTIONS = {"torque": "a:A:d:e:j:l:m:M:N:o:q:r:S:t:v:VW:hz", "openpbs": "a:A:e:j:J:k:l:m:M:N:o:P:q:r:S:v:VW:hz"}


def fail(code: int, text: str) -> NoReturn:
    sys.stderr.write(text + "\n")
    sys.exit(code)


def refuse(server: Server, torque: tuple[int, str], openpbs: tuple[int, str]) -> NoReturn:
    """Refuse a submission in the words of the dialect."""
    code, text = torque if server.torque else openpbs
    fail(code, f"qsub: submit error ({text})" if server.torque else f"qsub: {text}")


# --- qsub ------------------------------------------------------------------------------------------------------------


def directives(script: str) -> list[str]:
    """Return the options in the lines before the first command."""
    words: list[str] = []
    for line in script.splitlines():
        if line.startswith("#PBS"):
            words += line.removeprefix("#PBS").strip().split(maxsplit=1)
        elif line.strip() and not line.startswith("#"):
            break
    return words


def qsub(server: Server, arguments: list[str]) -> None:
    try:
        kill_delay = "K:" if server.torque and server.settings["takes_kill_delay"] else ""
        given, rest = getopt.getopt(arguments, OPTIONS[server.dialect] + kill_delay)
    except getopt.GetoptError as error:
        fail(2, f"qsub: invalid option -- '{error.opt}'\n{USAGE}")
    if len(rest) > 1:
        fail(2, f"[index issues]\n\n{USAGE}")
    file = Path(rest[0]) if rest and rest[0] != "-" else None
    if file and not file.exists():
        text = f"script file '{file}' cannot be loaded - No such" if server.torque else "script file:: No such"
        fail(1, f"qsub: {text} file or directory")
    script = file.read_bytes().decode(errors="surrogateescape") if file else sys.stdin.read()
    if server.torque and "\r\n" in script:
        fail(1, "qsub:  script is written in DOS/Windows text format")
    try:
        own, _ = getopt.getopt(directives(script), OPTIONS[server.dialect])
    except getopt.GetoptError as error:
        fail(2, f"qsub: invalid option -- '{error.opt}'\n{USAGE}")
    job = described(server, own + given, script, file.name if file else "STDIN")
    with server.locked():
        check_parents(server, job)
        job.number = server.next_number()
        server.save(job)
        for task in job.tasks:
            values = {**vars(job), "task": task, "tasks": []}
            if server.torque:
                values["name"] = f"{job.name}-{task}"
            server.save(Job(**values))
    if server.settings["qsub_fails_after"]:
        down(server, "qsub")
    print(job.id)


def described(server: Server, given: list[tuple[str, str]], script: str, name: str) -> Job:
    options: dict[str, Any] = {"directory": str(Path.cwd()), "environment": {}}
    job = Job(0, name, script, "work", options, {}, submitted=time.time())
    for option, value in given:
        if option == "-N":
            pattern = r"\S+" if server.torque else r"[A-Za-z0-9][\w.+-]*"
            if not re.fullmatch(pattern, value, re.ASCII):
                fail(2, f"{'[qsub: illegal -N value]' if server.torque else 'qsub: illegal -N value'}\n{USAGE}")
            job.name = value
        elif option == "-q":
            queue(server, job, value)
        elif option == "-l":
            resources(server, job, value)
        elif option == "-v":
            job.variables |= dict(part.partition("=")[::2] for part in value.split(","))
        elif option in ("-t", "-J"):
            tasks(server, job, value)
        elif option == "-W":
            attribute(server, job, value)
        elif option == "-a":
            layout = "%Y%m%d%H%M.%S" if "." in value else "%Y%m%d%H%M"
            job.begin = datetime.datetime.strptime(value, layout).timestamp()
        elif option == "-V" and server.torque:
            options["environment"] = dict(os.environ)  # OpenPBS 23.06 passes nothing on, and says nothing
        elif option == "-h":
            job.hold = "u"
        elif option == "-K":
            options["kill_delay"] = int(value)
        elif option in ("-o", "-e", "-j", "-A", "-r", "-S"):
            names = {"-o": "output", "-e": "error", "-j": "join", "-A": "account", "-r": "rerun", "-S": "shell"}
            key = names[option]
            options[key] = value
    if job.tasks and not server.torque and options.get("rerun") == "n":
        fail(255, "qsub:  cannot submit non-rerunable Array Job")
    return job


def queue(server: Server, job: Job, value: str) -> None:
    if value not in server.settings["queues"]:
        refuse(server, (172, "Unknown queue MSG=requested queue not found"), (170, "Unknown queue"))
    if value == "closed":
        refuse(server, (175, "Queue is not enabled MSG=queue is disabled"), (173, "Queue is not enabled"))
    job.queue = value


def seconds(server: Server, text: str) -> int:
    if not re.fullmatch(r"\d+(:\d+){0,2}", text):
        text = "for " if server.torque else ""
        what = f"Illegal attribute or resource value {text}Resource_List.walltime"
        refuse(server, (168, what), (166, what))
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def resources(server: Server, job: Job, value: str) -> None:
    for part in value.split(","):
        key, _, amount = part.partition("=")
        if key == "walltime":
            job.walltime = seconds(server, amount)
            limit = server.settings["max_walltime"]
            if limit and job.walltime > limit:
                text = "Job exceeds queue resource limits MSG=cannot satisfy queue max walltime requirement"
                refuse(server, (190, text), (188, "Job violates queue and/or server resource limits"))
        elif key in ("nodes", "select"):
            shape(server, job, key, amount)
        elif key not in ("mem", "pmem", "place", "qos", "ncpus"):
            text = f"Unknown resource {'type  ' if server.torque else ''}Resource_List.{key}"
            refuse(server, (189, text), (187, text))


def shape(server: Server, job: Job, key: str, amount: str) -> None:
    if server.torque and key == "select":
        return  # accepted and ignored
    nodes, lines, most = 0, 0, 0
    for chunk in amount.split("+"):
        count, *words = chunk.split(":")
        values = dict(word.partition("=")[::2] for word in words)
        if "gpus" in values and not server.torque:
            fail(241, "qsub: node(s) specification error")
        if "ngpus" in values and not server.settings["ngpus"]:
            fail(187, "qsub: Unknown resource: ngpus")
        each = int(values.get("ppn" if key == "nodes" else "ncpus", 1))
        number = int(count) if count.isdigit() else 1
        nodes, most = nodes + number, max(most, each)
        lines += number * int(values.get("mpiprocs", each if key == "nodes" else 1))
    job.options["ranks"] = lines
    if most > server.settings["cores"] or nodes > server.settings["nodes"]:
        if server.torque:
            fail(190, "qsub: submit error (Job exceeds queue resource limits MSG=cannot locate feasible nodes)")
        job.never = f"Can Never Run: Insufficient amount of resource: ncpus (R: {most} A: 8 T: 8)"
        if nodes > server.settings["nodes"]:
            job.never = "Can Never Run: Not enough total nodes available"


def tasks(server: Server, job: Job, value: str) -> None:
    numbers, _, limit = value.partition("%")
    found: list[int] = []
    for part in numbers.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        alone = match and not match[2]
        bad = not match or (server.torque and match[3]) or (not server.torque and ("," in numbers or alone))
        if bad or not match or (not server.torque and match[1] == match[2]):
            fail(2, f"qsub: illegal -{'t' if server.torque else 'J'} value\n{USAGE}")
        found += range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
    job.tasks, job.limit = found, int(limit or 0)


def attribute(server: Server, job: Job, value: str) -> None:
    key, _, text = value.partition("=")
    if key == "umask":
        return
    if key != "depend":
        refuse(
            server, (154, "Undefined attribute  MSG=detected presence of an unknown attribute"), (154, "Error (15002)")
        )
    for part in text.split(","):
        kind, *parents = part.split(":")
        kind = kind.removesuffix("array") if server.torque else kind
        if kind not in ("after", "afterok", "afternotok", "afterany", "afterstart"):
            fail(2, f"qsub: illegal -W value\n{USAGE}")
        job.depend.append([kind.removesuffix("start"), *parents])


def check_parents(server: Server, job: Job) -> None:
    """Torque refuses to wait for a job that it does not know or that has ended well; OpenPBS takes everything."""
    for kind, *parents in job.depend:
        for parent in (server.known(name) for name in parents):
            late = parent is None or (parent.over and not (kind == "afterok" and parent.exit_status != 0))
            if server.torque and late:
                fail(208, "qsub: submit error (Invalid Job Dependency)")


# --- qstat -----------------------------------------------------------------------------------------------------------


def qstat(server: Server, arguments: list[str]) -> None:
    given, names = getopt.getopt(arguments, "1fwtxQB")
    flags = {option for option, _ in given}
    if "-Q" in flags:
        queues(server, names)
        return
    code, kept = 0, ""
    with server.locked():
        for job in selected(server, names, flags):
            if isinstance(job, tuple):
                code, text = job
                # A full buffer goes out in the middle of a line, and a complaint comes at once.
                print(kept[:-9], end="", flush=True)
                kept = kept[-9:]
                sys.stderr.write(f"qstat: {text}\n")
                sys.stderr.flush()
            else:
                kept += "\n".join([*shown(server, job), ""])
    print(kept, end="")
    sys.exit(code)


def queues(server: Server, names: list[str]) -> None:
    print("Queue              Max   Tot   Ena   Str")
    for name in names or server.settings["queues"]:
        if name not in server.settings["queues"]:
            fail(170, f"qstat: Unknown queue destination {name}")
        print(f"{name:<18} 0     0     yes   yes")


def selected(server: Server, names: list[str], flags: set[str]) -> Iterator[Job | tuple[int, str]]:
    """Yield the jobs to show, and (exit code, complaint) for arguments that name none."""
    if not server.torque and "-x" in flags and not server.settings["history"]:
        for name in names:
            yield 0, f"PBS is not configured to maintain job history {name}"
        return
    if server.torque and "-t" not in flags and any("[]" in name for name in names):
        names = []  # it lists all jobs there are
    everything = sorted(server.jobs.values(), key=lambda job: (job.number, job.task if job.task is not None else -1))
    if not names:
        yield from (job for job in everything if job.task is None)
        return
    for name in names:
        job = server.known(name)
        if not re.match(r"\d", name):
            yield 172 if server.torque else 170, f"Unknown queue destination {name}"
        elif job is None:
            yield 153, f"Unknown Job Id{' Error' if server.torque else ''} {name}"
        elif job.over and not server.torque and "-x" not in flags:
            yield 35, f"{name} Job has finished, use -x or -H to obtain historical job information"
        else:
            if not (job.tasks and server.torque):
                yield job
            if job.tasks and "-t" in flags:
                yield from (other for other in everything if other.number == job.number and other.task is not None)


def shown(server: Server, job: Job) -> Iterator[str]:
    """Yield the lines of ``qstat -f``, folded as it folds them."""
    yield f"Job Id: {job.id}"
    status = "exit_status" if server.torque else "Exit_status"
    spent = (job.ended or time.time()) - job.started if job.started else 0
    variables = {"PBS_O_HOME": "/home/user", "PBS_O_PATH": "/usr/bin:/bin", **job.variables, "PBS_O_QUEUE": job.queue}
    depend = ",".join(":".join([kind, *(f"{p}@{SERVER}" for p in parents)]) for kind, *parents in job.depend)
    fields: dict[str, object] = {
        "Job_Name": job.name,
        "Job_Owner": f"{user()}@{SERVER}",
        "resources_used.walltime": clock(spent) if job.started else None,
        "job_state": job.state,
        "queue": job.queue,
        "Account_Name": job.options.get("account"),
        "exec_host": f"{SERVER}/0" if job.started else None,
        "Hold_Types": job.hold,
        "depend": depend or None,
        "Output_Path": f"{SERVER}:{job.options['directory']}/{job.options.get('output', '')}",
        "Resource_List.walltime": clock(job.walltime) if job.walltime else None,
        "Variable_List": ",".join(f"{key}={value}" for key, value in variables.items()),
        "comment": job.comment or None,
        status: job.exit_status,
    }
    for key, value in fields.items():
        if value is not None:
            line = f"    {key} = {value}"
            yield line[:79]
            yield from (f"\t{line[start : start + 71]}" for start in range(79, len(line), 71))
    yield ""


def clock(spent: float) -> str:
    total = int(spent)
    return f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


# --- the others ------------------------------------------------------------------------------------------------------


def qdel(server: Server, arguments: list[str]) -> None:
    code = 0
    with server.locked():
        for name in arguments:
            job = server.known(name)
            if job is None:
                code = 153
                text = f"nonexistent job id: {name}" if server.torque else f"Unknown Job Id {name}"
                sys.stderr.write(f"qdel: {text}\n")
            elif job.over:
                code = 170 if server.torque else 35
                text = "Request invalid for state of job MSG=invalid state for job - COMPLETE"
                sys.stderr.write(f"qdel: {text if server.torque else 'Job has finished'} {job.id}\n")
            else:
                delete(server, job)
    sys.exit(code)


def delete(server: Server, job: Job) -> None:
    for each in [other for other in server.jobs.values() if job.tasks and other.number == job.number] or [job]:
        if each.state == "R" and not each.tasks:
            (server.folder / "spool" / f"{each.id}.delete").touch()
        elif not each.tasks and not each.over:
            server.end(each, None)


def qselect(server: Server, arguments: list[str]) -> None:
    given, _ = getopt.getopt(arguments, "u:N:A:xs:")
    options = dict(given)
    if options.get("-u", user()) != user():
        return
    if "-x" in options and not server.settings["history"]:
        fail(0, "qselect: PBS is not configured to maintain job history")
    with server.locked():
        for job in sorted(server.jobs.values(), key=lambda job: job.number):
            visible = server.torque or "-x" in options or not job.over
            if visible and job.task is None and options.get("-N", job.name) == job.name:
                print(job.id)


def pbsnodes(server: Server, arguments: list[str]) -> None:
    if not server.torque and not arguments:
        fail(1, "usage:\tpbsnodes -[C comment][-o|-r] host host")
    for number in range(1, server.settings["nodes"] + 1):
        print(f"{SERVER}{number}\n     state = free\n     np = {server.settings['cores']}\n     ntype = cluster\n")


def down(server: Server, command: str) -> NoReturn:
    codes = {"qstat": (111, 255), "qsub": (111, 162), "qdel": (111, 162), "qselect": (111, 162), "pbsnodes": (1, 1)}
    if server.torque:
        fail(
            codes[command][0], f"\nUnable to communicate with {SERVER}(127.0.0.1)\n{command}: cannot connect to server"
        )
    fail(codes[command][1], f"Connection refused\n{command}: cannot connect to server {SERVER} (errno=15010)")


def version(server: Server) -> None:
    if server.torque:
        fail(0, "Version: 6.1.3.h5\nCommit: b405afb")
    print("pbs_version = 23.06.06")


def main(dialect: str, command: str, *arguments: str) -> None:
    server = Server(dialect)
    if arguments == ("--version",):
        version(server)
    elif server.settings["down"]:
        down(server, command)
    else:
        commands: dict[str, Callable[[Server, list[str]], None]] = {
            "qsub": qsub,
            "qstat": qstat,
            "qdel": qdel,
            "qselect": qselect,
            "pbsnodes": pbsnodes,
        }
        commands[command](server, list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
