"""Which runs a command is about: those that documents describe, or those whose Plans lie in the results folder."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from modak_deploy.commands import now
from modak_deploy.discovery.asking import Inquiry, script_for
from modak_deploy.documents import Description, RunOptions, folders, parse_options, read_description, read_document
from modak_deploy.documents.extra import read_extra, with_values
from modak_deploy.errors import InfeasibleError, InputError, TargetError
from modak_deploy.jobmodel.recognise import is_job_document
from modak_deploy.kept import PLAN_FILE, Kept, OutdatedPlanError, kept_plan
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Target
from modak_deploy.optimiser.changes import with_secrets
from modak_deploy.paths import expanded
from modak_deploy.planning import check_deployed, plan_deployment, still_holds, with_image
from modak_deploy.secret_values import Reader, hashes_of
from modak_deploy.transport.base import Transport
from modak_deploy.transport.connect import connect
from modak_deploy.util.files import exists, is_file, listed

Notice = Callable[[str], None]
DOCUMENTS = (".yml", ".yaml", ".json")
"""How the names of documents end; any other name is that of a run."""


@dataclass(frozen=True)
class Arguments:
    """What the commands on deployments have in common."""

    names: Sequence[str]
    """Documents; or the name of a run in the results folder."""
    extra: Sequence[str] = ()
    search: Sequence[Path] = ()
    config: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of the run that the command line sets, above those of ``-e``."""


class Connections:
    """One transport for each target of a command; ``stack`` closes them."""

    def __init__(self, config: Path | None, stack: ExitStack) -> None:
        self._config = config
        self._stack = stack
        self._transports: list[tuple[Target, Transport]] = []

    def to(self, target: Target) -> Transport:
        """Return the transport to a target."""
        for other, transport in self._transports:
            if other == target:
                return transport
        transport = connect(target, self._config, self._stack)
        self._transports.append((target, transport))
        return transport


@dataclass(frozen=True)
class Selected:
    """One run: as documents describe it, or as its Plan in the results folder does."""

    name: str
    options: RunOptions
    search: list[Path]
    documents: str
    """How the user names it."""
    description: Description | None = None
    deployment: Deployment | None = None

    @property
    def results(self) -> Path:
        """The folder that has a folder for the results of each run."""
        return results_folder(self.options)

    @property
    def reader(self) -> Reader:
        """What reads the values of secrets; there are no Ansible variables."""
        return Reader(self.search, commands=self.options.secret_commands)

    def kept(self, notice: Notice) -> Kept | None:
        """Return the Plan that was deployed, None where there is none that this modak can use."""
        try:
            return kept_plan(self.results, self.name)
        except OutdatedPlanError as error:
            if self.deployment is None:
                raise
            notice(f"{str(error).partition(';')[0]}; it is not used, and the plan is made again")
            return None

    def deployed(self, connections: Connections, notice: Notice) -> Plan:
        """Return the Plan that was deployed; where none is kept, the one that the documents lead to.

        InputError where another may have written the kept one, for a target that no document describes.
        """
        kept = self.kept(notice)
        if kept is not None and self.deployment is not None:
            return check_deployed(kept, self.deployment)
        if kept is not None:
            return _own(kept)
        return self.plan(connections, None, deployed=True)

    def plan(self, connections: Connections, kept: Kept | None, *, deployed: bool = False) -> Plan:
        """Return the Plan of the documents, the ``kept`` one where that still holds; see ``plan_deployment``."""
        deployment = self.deployment
        if deployment is None or self.description is None:
            raise InputError(f"no Plan of a run '{self.name}' lies in {self.results}", hint="name its document")
        inquiries = {
            target.name: Inquiry(
                connections.to(target), script_for(deployment.on(target), sys.executable), target.name
            ).answer
            for target in deployment.targets
            if target.is_asked
        }
        try:
            plan = plan_deployment(
                deployment,
                connections.to,
                search=self.search,
                now=now(),
                default_python=sys.executable,
                inquiries=inquiries,
                notice=lambda text: print(text, file=sys.stderr),
                deployed=deployed,
            )
            plan = still_holds(with_secrets(plan, hashes_of(plan, self.reader)), kept)
        except (InputError, InfeasibleError, TargetError) as error:
            raise error.located(self.description.locate) from None
        return still_holds(with_image(plan, connections.to(plan.target), search=self.search), kept)


def results_folder(options: RunOptions) -> Path:
    """Return the absolute folder for results."""
    return expanded(options.results).absolute()


def select(arguments: Arguments) -> Selected:
    """Return the run that the arguments name: by documents, or by its name in the results folder."""
    extra = read_extra(arguments.extra)
    given = {**extra.options, **arguments.options}
    paths = [Path(name) for name in arguments.names]
    if len(paths) == 1 and not exists(paths[0]):
        options = parse_options(given)
        name = arguments.names[0]
        if "/" not in name and _has_plan(results_folder(options), name):
            if extra.values:
                raise InputError("keys of documents are not supported with the name of a run", hint="name its document")
            return Selected(name, options, folders([*arguments.search, *map(Path, options.search_paths)], ()), name)
        if "/" not in name and paths[0].suffix not in DOCUMENTS:
            where = f"no run of this name is in {results_folder(options)}"
            hint = f"{where}; 'modak status' shows the runs"
            raise InputError("file not found", source=name, hint=hint, code="file-not-found")
    _check_documents(paths)
    description = with_values(read_description(*paths), extra)
    deployment, documented = description.parse()
    options = parse_options(arguments.options, parse_options(extra.options, documented))
    if any(target.is_created for target in deployment.targets):
        raise InputError(
            "a target of the type cloud is created by the playbooks, not by this command",
            key="target.type",
            hint=f"run ansible-playbook modak.deploy.deploy -e deployment={','.join(map(str, paths))}",
        ).located(description.locate)
    return Selected(
        deployment.run_name,
        options,
        folders([*arguments.search, *map(Path, options.search_paths)], paths),
        " ".join(map(str, paths)),
        description,
        deployment,
    )


def _check_documents(paths: Sequence[Path]) -> None:
    if len(paths) == 1 and exists(paths[0]) and is_job_document(read_document(paths[0]).data):
        raise InputError(
            "a document of the JSON job model cannot be deployed as it is",
            source=paths[0],
            hint="'modak plan FILE -o FOLDER' completes it and writes its scripts",
        )


def _has_plan(results: Path, name: str) -> bool:
    try:
        return (results / name / PLAN_FILE).is_file()
    except OSError as error:
        raise InputError(f"{results / name} cannot be read: {error.strerror}") from None


def kept_runs(options: RunOptions) -> list[str]:
    """Return the names of the runs whose Plans lie in the results folder."""
    try:
        return [path.name for path in listed(results_folder(options)) if is_file(path / PLAN_FILE)]
    except OSError as error:
        raise InputError(f"{results_folder(options)} cannot be read: {error.strerror}") from None


def _own(kept: Kept) -> Plan:
    if kept.own is True:
        return kept.plan
    changed = "was changed after modak wrote it" if kept.own is False else "was not written by this controller"
    raise InputError(f"the file {changed}", source=kept.path, hint="name the document that describes its target")
