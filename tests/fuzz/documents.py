"""Mutated documents, kept Plans, measurement and catalogue files and blueprints: accepted correctly, or one message.

    python tests/fuzz/documents.py [--seed SEED] [--cases NUMBER] [--kind KIND] [--only NUMBER]

The same seed and number give the same case. A finding is any exception that is not modak's own, a message that does
not name the file (and the line, where YAML has one), holds a control character or is endless, an accepted document
without a valid Plan, and a kept Plan that would run what the request does not say.
"""

import argparse
import copy
import json
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from mutations import dumped, mutate_data, mutate_text, parsed

from modak_deploy.catalogue.catalogue import DATA, load_catalogue
from modak_deploy.catalogue.checking import check_images
from modak_deploy.documents import load_deployment, read_document
from modak_deploy.errors import InputError, ModakError
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.recognise import is_job_document
from modak_deploy.jobmodel.site import load_sites
from modak_deploy.kept import kept_plan
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import keep, make_plan
from modak_deploy.performance.recording import records_of
from modak_deploy.performance.records import SHIPPED, Table, read_records, to_line
from modak_deploy.tosca.validate import validate

TOP = Path(__file__).resolve().parents[2]
TESTS = TOP / "tests" / "data"
LIBRARY = TOP / "tosca" / "blueprints"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONGEST = 30_000
"""Characters of one message."""
SECONDS = 20
"""Seconds for one case; far more than any takes."""
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

OF_THE_WHOLE = re.compile(
    r"the document (is empty|must be)|a blueprint must be a mapping|is given twice|the (image|lever) '"
)
"""What is said of a file as a whole, or of two entries that contradict each other."""


@dataclass(frozen=True)
class Case:
    """One mutated file."""

    number: int
    kind: str
    name: str
    """The file's name."""
    data: bytes


@dataclass(frozen=True)
class Outcome:
    """What became of a case; ``finding`` says what is wrong with that."""

    accepted: bool
    message: str = ""
    finding: str | None = None


# ---- seeds ----------------------------------------------------------------------------------------------------------


@cache
def bases() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((TESTS / "optimiser" / "bases.yaml").read_text())
    return loaded


@cache
def facts() -> Facts:
    return Facts.model_validate(bases()["digits"]["facts"])


@cache
def measurements() -> Table:
    return Table(read_records(TESTS / "optimiser" / "digits.jsonl"))


def planned(deployment: Deployment) -> Plan:
    return make_plan(deployment, facts(), [], now=NOW, measurements=measurements())


@cache
def base_plan() -> Plan:
    data = copy.deepcopy(bases()["digits"]["deployment"])
    data["application"] |= {"environment": {"A": "b"}, "secret_environment": {"T": {"file": "token"}}}
    data["job"] = {"wall_time": 1800, "pre_execution": "true", "environment": {"C": "d"}}
    return planned(Deployment.model_validate(data)).model_copy(update={"secrets": {"T": "0" * 64}})


@cache
def seeds() -> dict[str, list[tuple[str, str]]]:
    """Return name and text of the files that are mutated, by kind."""
    documents = [(path.name, path.read_text()) for path in sorted((TOP / "examples").rglob("*.yml"))]
    documents += [
        (f"{name}.yml", yaml.safe_dump(base["deployment"], sort_keys=False)) for name, base in bases().items()
    ]
    everything = base_plan().model_dump(mode="json", include={"application", "target", "request", "job"})
    documents.append(("everything.yml", yaml.safe_dump(everything, sort_keys=False)))
    lines = [line for path in (TESTS / "optimiser" / "digits.jsonl", *SHIPPED.glob("*.jsonl")) for line in path.open()]
    catalogue = [(path.name, path.read_text()) for path in sorted(DATA.glob("*.yaml"))]
    catalogue += [("sites.yaml", (TESTS / "jobmodel" / "sites.yaml").read_text())]
    blueprints = [(path.name, path.read_text()) for path in sorted(LIBRARY.glob("*.yaml"))]
    blueprints += [(n, (TESTS / "blueprints" / n).read_text()) for n in ("base.yaml", "image.yaml", "tiny.yaml")]
    return {
        "document": documents,
        "plan": [("plan.json", base_plan().to_json())],
        "measurement": [("measurements.jsonl", "".join(lines[n : n + 3])) for n in range(0, min(len(lines), 90), 9)],
        "result": [("job.json", json.dumps(result(), indent=2))],
        "catalogue": catalogue,
        "blueprint": blueprints,
        "job-model": [(name, (TESTS / "jobmodel" / name).read_text()) for name in ("solver.json", "training.json")],
    }


def result() -> dict[str, Any]:
    return {
        "id": "7", "scheduler": "process", "tag": base_plan().tag(), "state": "completed", "exit_code": 0,
        "started": 1.0e9, "ended": 1.0e9 + 20, "seconds": 20.0, "directory": "/x",
        "metrics": {"accuracy": 0.9, "first_epoch_seconds": 3.0, "later_epoch_seconds": [1.0] * 11},
    }  # fmt: skip


def make_case(seed: int, number: int, kind: str | None = None) -> Case:
    rng = random.Random(f"{seed}/{number}")
    kind = kind or rng.choice(list(seeds()))
    name, text = rng.choice(seeds()[kind])
    if rng.random() < 0.35:
        return Case(number, kind, name, mutate_text(text, rng))
    return Case(number, kind, name, dumped(mutate_data(parsed(text, name), rng), name))


def cases(seed: int, n: int, kind: str | None = None) -> Iterator[Case]:
    """Yield ``n`` cases."""
    for number in range(n):
        yield make_case(seed, number, kind)


# ---- what is done with them -----------------------------------------------------------------------------------------


class Wrong(Exception):
    """Something was accepted that should not have been, or came out wrong."""


def take_document(path: Path) -> None:
    deployment = load_deployment(path)
    for target in deployment.targets:
        alone = deployment.on(target)
        try:
            plan = planned(alone)
        except ModakError as error:
            check_message(str(error), None)  # it names keys; the file is right in itself
            continue
        if Plan.model_validate_json(plan.to_json()) != plan:
            raise Wrong("the Plan does not read back as what it is")


def take_plan(path: Path) -> None:
    results = path.parent / "results"
    kept_at = results / base_plan().name / "plan.json"
    kept_at.parent.mkdir(parents=True)
    shutil.copy(path, kept_at)
    try:
        kept = kept_plan(results, base_plan().name)
    except ModakError as error:
        raise type(error)(str(error).replace(str(kept_at), str(path))) from None
    assert kept is not None
    new = base_plan()
    possible = [new.chosen, *(ranked.candidate for ranked in new.alternatives)]
    harmless = {new.model_copy(update={"chosen": candidate}).fingerprint() for candidate in possible}
    for own in (True, False):
        if keep(new, kept.plan, own=own).fingerprint() not in harmless:
            raise Wrong("a kept Plan runs what the request does not say")


def take_measurement(path: Path) -> None:
    for record in read_records(path):
        to_line(record)


def take_result(path: Path) -> None:
    (path.parent / "plan.json").write_text(base_plan().to_json())
    for record in records_of(path.parent, load_catalogue()):
        to_line(record)


def take_catalogue(path: Path) -> None:
    catalogue = load_catalogue([path])
    check_images(catalogue)
    _ = catalogue.version


def take_blueprint(path: Path) -> None:
    for child in (child for child in LIBRARY.iterdir() if child.is_dir()):
        shutil.copytree(child, path.parent / child.name)
    shutil.copytree(TOP / "examples", path.parent / "examples")
    if faults := validate(path):
        raise InputError("\n".join(map(str, faults)))


def take_job_model(path: Path) -> None:
    document = read_document(path)
    if not is_job_document(document.data):
        raise InputError(f"{path}: it is not of the JSON job model")
    sites = load_sites([TESTS / "jobmodel" / "sites.yaml"])
    answer(document.data, sites=sites, now=NOW, origin=str(path), locate=document.locate)


TAKE: dict[str, Callable[[Path], None]] = {
    "document": take_document,
    "plan": take_plan,
    "measurement": take_measurement,
    "result": take_result,
    "catalogue": take_catalogue,
    "blueprint": take_blueprint,
    "job-model": take_job_model,
}


def check_message(message: str, path: Path | None) -> None:
    """Raise Wrong where a message is not one that a user can act on."""
    if not message.strip() or len(message) > LONGEST:
        raise Wrong(f"the message has {len(message)} characters")
    if found := CONTROL.search(message):
        raise Wrong(f"the message holds the control character {found[0]!r}")
    if "hunter2" in message:
        raise Wrong("the message holds a password")
    if re.search(r"Traceback|\bobject at 0x|Exceeds the limit", message):
        raise Wrong("the message is Python's own")
    if path is not None and str(path) not in message:
        raise Wrong("the message does not name the file")
    has_lines = path is not None and path.suffix in (".yml", ".yaml")
    if has_lines and not re.search(re.escape(str(path)) + r":\d+: ", message) and not OF_THE_WHOLE.search(message):
        raise Wrong("the message does not name the line")


def run(case: Case, folder: Path) -> Outcome:
    """Do with a case what modak does with such a file, in an empty folder."""
    path = folder / case.name
    path.write_bytes(case.data)
    message = ""
    try:
        with _Limited():
            TAKE[case.kind](path)
    except ModakError as error:
        message = str(error)
    except Wrong as error:
        return Outcome(True, finding=str(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Outcome(False, finding=f"{type(error).__name__}: {str(error)[:300]}")
    try:
        if message:
            check_message(message, path)
    except Wrong as error:
        return Outcome(False, message, str(error))
    return Outcome(not message, message)


class _Limited:
    """Raise TimeoutError in what takes too long, where signals can be used."""

    def __enter__(self) -> None:
        def over(_signal: int, _frame: FrameType | None) -> None:
            raise TimeoutError(f"it takes longer than {SECONDS} s")

        self._before = signal.signal(signal.SIGALRM, over)
        signal.alarm(SECONDS)

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._before)


def run_all(seed: int, n: int, kind: str | None = None) -> tuple[Counter[tuple[str, bool]], list[tuple[Case, Outcome]]]:
    """Run ``n`` cases; return how many of each kind were accepted or not, and the findings."""
    counts: Counter[tuple[str, bool]] = Counter()
    findings = []
    for case in cases(seed, n, kind):
        with tempfile.TemporaryDirectory(prefix="modak-fuzz.") as folder:
            outcome = run(case, Path(folder))
        counts[case.kind, outcome.accepted] += 1
        if outcome.finding is not None:
            findings.append((case, outcome))
    return counts, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--kind", choices=sorted(TAKE))
    parser.add_argument("--only", type=int, metavar="NUMBER", help="show one case and what becomes of it")
    options = parser.parse_args()
    if options.only is not None:
        case = make_case(options.seed, options.only, options.kind)
        sys.stdout.write(case.data.decode("utf-8", "backslashreplace"))
        with tempfile.TemporaryDirectory(prefix="modak-fuzz.") as folder:
            print(f"\n--- {case.kind}: {run(case, Path(folder))}")
        return 0
    counts, findings = run_all(options.seed, options.cases, options.kind)
    for kind in TAKE:
        print(f"{kind:<12} {counts[kind, True]:>5} accepted {counts[kind, False]:>5} rejected")
    for case, outcome in findings:
        print(f"case {case.number} ({case.kind}, {case.name}): {outcome.finding}\n    {outcome.message[:300]!r}")
    print(f"{len(findings)} findings in {options.cases} cases, seed {options.seed}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
