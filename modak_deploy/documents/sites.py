"""The settings of sites: read from all files, merged key by key, and filled into documents that name a site."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_deploy.diagnostics import Locate, Location, Position
from modak_deploy.documents.reading import Document, read_document
from modak_deploy.documents.sitefiles import Kind, SiteFilePath, check_trusted, search_path, site_files
from modak_deploy.documents.validation import check
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.paths import expanded
from modak_deploy.util.text import did_you_mean

if TYPE_CHECKING:  # most documents name no site, and then no model of one is built
    from modak_deploy.model.site import SiteFile, SiteSettings

REACHING = ("host", "user", "port", "private_key", "known_hosts")
"""Keys of a target that say where it is and how it is reached."""
_MERGED = ("target", "job", "software", "storage")
"""Sections whose keys are merged; any other key of a later file replaces the earlier."""


@dataclass(frozen=True)
class ReadFile:
    """A file of sites that has been read and checked."""

    document: Document
    content: "SiteFile"
    kind: Kind
    folder: Path | None = None
    """The folder that it was listed in; None where the file itself was named."""

    def names(self) -> list[str]:
        """Return the names of its sites."""
        return list(self.content.sites)


@dataclass(frozen=True)
class Site:
    """The settings of one site from all files that describe it."""

    name: str
    data: Mapping[str, Any]
    """The merged keys, as in a file; folders of the catalogue are absolute."""
    origins: Mapping[Location, tuple[Document, Location]]
    """For each section and key the document and the location that it comes from."""
    documents: Sequence[Document]
    """The files that describe it, the weakest first."""

    @cached_property
    def settings(self) -> "SiteSettings":
        """The settings as a model; InputError where the files together make no valid site."""
        from modak_deploy.model.site import SiteSettings

        return check(SiteSettings, dict(self.data), origin=str(self.documents[-1].path), locate=self.locate)

    @property
    def position(self) -> Position:
        """Where the strongest file begins to describe it."""
        return self.documents[-1].locate(("sites", self.name))

    def locate(self, location: Location) -> Position | None:
        """Return file and line of a key, such as ``("target", "host")``."""
        for length in (2, 1):
            if origin := self.origins.get(location[:length]):
                document, start = origin
                return document.locate((*start, *location[length:]))
        return self.position


@dataclass(frozen=True)
class Sites:
    """All sites that files describe, the weakest file first."""

    files: Sequence[ReadFile]

    def names(self) -> list[str]:
        """Return the names of all sites, sorted."""
        return sorted({name for file in self.files for name in file.names()})

    def find(self, name: str) -> Site | None:
        """Return a site by its name; None where no file describes it."""
        describing = [file for file in self.files if name in file.content.sites]
        return _merge(name, describing) if describing else None

    def get(self, name: str, key: Location = ("target", "site")) -> Site:
        """Return a site that takes jobs; InputError with what there is, for the ``key`` that names it."""
        site = self.find(name)
        if site is None:
            names = self.names()
            available = f"there are {', '.join(names)}" if names else f"searched in {', '.join(search_path())}"
            hint = did_you_mean(name, names) or available
            raise InputError(f"site '{name}' not found", key=key, hint=hint, code="not-found")
        if not site.settings.enabled:
            raise InfeasibleError(f"the site {name} is not enabled: it takes no jobs", key=key)
        return site


def load_site_settings() -> Sites:
    """Return the sites of all files that are found; InputError names the file that is wrong or not to be trusted."""
    return Sites([read_site_file(file) for file in site_files()])


def read_site_file(file: SiteFilePath) -> ReadFile:
    """Read and check one file of sites."""
    from modak_deploy.model.site import SiteFile

    check_trusted(file)
    document = read_document(file.path)
    content = check(SiteFile, document.data, origin=str(file.path), locate=document.locate)
    return ReadFile(document, content, file.kind, file.folder)


def _merge(name: str, files: Sequence[ReadFile]) -> Site:
    _check_folders(name, files)
    data: dict[str, Any] = {}
    origins: dict[Location, tuple[Document, Location]] = {}
    for file in files:
        own = file.document.data["sites"][name] or {}
        _check_reach(name, own, data, origins, file)
        for section, value in own.items():
            start: Location = ("sites", name, section)
            origins[section,] = (file.document, start)
            if section in _MERGED:
                data[section] = {**data.get(section, {}), **value}
                origins |= {(section, key): (file.document, (*start, key)) for key in value}
            elif section == "catalogue":
                data[section] = [*data.get(section, []), *(_absolute(item, file.document.path) for item in value)]
            else:
                data[section] = value
    return Site(name, data, origins, [file.document for file in files])


def _check_folders(name: str, files: Sequence[ReadFile]) -> None:
    """Refuse a site that two files of one folder describe: their names would decide where its jobs go.

    One of them may be a copy that somebody forgot.
    """
    first: dict[Path, Document] = {}
    for file in files:
        before = first.setdefault(file.folder, file.document) if file.folder else file.document
        if before.path != file.document.path:
            raise InputError(
                f"the site {name} is described twice, first in {before.locate(('sites', name))}",
                key=("sites", name),
                source=file.document.path,
                line=file.document.locate(("sites", name)).line,
                hint="keep one of them, or name both files in MODAK_SITES, the one with the higher precedence first",
            )


def _check_reach(name: str, own: Any, data: Any, origins: Any, file: ReadFile) -> None:
    """Refuse a project's file that leads a site of the user's or of the system somewhere else.

    The file may have come with a repository; jobs and their secrets would go there by the name that the user knows.
    """
    if file.kind != "project" or not data:
        return
    before = data.get("target", {})
    for key in REACHING:
        if key in own.get("target", {}) and own["target"][key] != before.get(key):
            document, location = origins.get(("target", key)) or next(iter(origins.values()))
            raise InputError(
                f"the project's file cannot change '{key}' of the site {name}, which "
                f"{document.locate(location)} describes",
                key=("sites", name, "target", key),
                source=file.document.path,
                line=file.document.locate(("sites", name, "target", key)).line,
                hint="give the site another name, or name the file in MODAK_SITES",
                code="untrusted-file",
            )


def _absolute(location: str, file: Path) -> str:
    if re.match(r"[a-z]+://", location):
        return location
    return str(file.absolute().parent / expanded(location))


@dataclass(frozen=True)
class Expanded:
    """Sections of a deployment document in which the settings of the named sites are filled in."""

    data: Mapping[str, Any]
    original: Mapping[str, Any]
    sites: Mapping[Location, Site] = field(default_factory=dict)
    """The site of each target, by the target's location."""

    def locating(self, locate: Locate | None) -> Locate:
        """Return a locate that leads to a site's file for what a site has and the document, as ``locate``, has not."""

        def position(location: Location) -> Position | None:
            own = None if _holds(self.original, location) else self._of_site(location)
            return own or (locate(location) if locate else None)

        return position

    def _of_site(self, location: Location) -> Position | None:
        for start, site in self.sites.items():
            if location[: len(start)] == start and ("target", *location[len(start) :])[:2] in site.origins:
                return site.locate(("target", *location[len(start) :]))
            if location[:1] == ("job",) and location[:2] in site.origins:
                return site.locate(location)
        return None


def _holds(data: Any, location: Location) -> bool:
    """Tell whether the document itself has the key, at least down to the key of a section."""
    for part in location[: 3 if location[:1] == ("other_targets",) else 2]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def expand(data: Mapping[str, Any], locate: Locate | None = None, origin: str = "") -> Expanded:
    """Fill in the settings of the sites that ``target`` and ``other_targets`` name; a document's keys replace theirs.

    ``target: lumi`` is ``target: {site: lumi}``. A document that names no site comes back as it is; no file is read.
    """
    references = list(_references(data))
    if not references:
        return Expanded(data, data)
    try:
        return _expand(data, references)
    except (InputError, InfeasibleError) as error:
        error = error.located(locate) if locate else error
        raise error.mapped(lambda d: d if d.source else d.at(Position(origin))) from None


def _expand(data: Mapping[str, Any], references: Sequence[tuple[Location, Mapping[str, Any]]]) -> Expanded:
    sites = load_site_settings()
    named = {location: sites.get(section["site"], (*location, "site")) for location, section in references}
    result = dict(data)
    for location, section in references:
        target = _target(location, section, named[location])
        if location == ("target",):
            result["target"] = target
        else:
            result["other_targets"] = [*result["other_targets"]]
            result["other_targets"][int(location[1])] = target
    _add_job(result, data, named)
    _add_catalogue(result, data, named)
    return Expanded(result, data, named)


def _references(data: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yield the targets that name a site; what is wrong with any other is for the model to say."""
    others = data.get("other_targets")
    entries: list[tuple[Location, Any]] = [(("target",), data.get("target"))]
    entries += [(("other_targets", n), entry) for n, entry in enumerate(others if isinstance(others, list) else [])]
    for location, entry in entries:
        section = {"site": entry} if isinstance(entry, str) and entry else entry
        if isinstance(section, Mapping) and isinstance(section.get("site"), str):
            yield location, section


def _target(location: Location, section: Mapping[str, Any], site: Site) -> dict[str, Any]:
    settings = site.settings  # checked, before its keys are mixed with others
    own = {key: value for key, value in section.items() if key != "site"}
    kind = settings.target.type
    if kind is not None and own.get("type", kind) != kind:
        raise InputError(f"the type is {own['type']}, and the site {site.name} is {kind}", key=(*location, "type"))
    return {"name": site.name, **site.data.get("target", {}), **own}


def _add_job(result: dict[str, Any], data: Mapping[str, Any], named: Mapping[Location, Site]) -> None:
    """Fill in the sites' options of jobs; of several targets all must have the same, since there is one job."""
    own = data.get("job") or {}
    if not isinstance(own, Mapping):
        return
    count = 1 + len(data.get("other_targets") or [])
    options: dict[str, Any] = {}
    for location, site in named.items():
        for key, value in site.data.get("job", {}).items():
            if key in own:
                continue
            others = [other.data.get("job", {}).get(key) for other in named.values()]
            if len(named) < count or any(other != value for other in others):
                raise InputError(
                    f"the site {site.name} sets 'job.{key}', and another target does not set the same",
                    key=location,
                    hint=f"write 'job.{key}' into the document; it holds for all targets",
                )
            options[key] = value
    if options:
        result["job"] = {**options, **own}


def _add_catalogue(result: dict[str, Any], data: Mapping[str, Any], named: Mapping[Location, Site]) -> None:
    folders = list(dict.fromkeys(item for site in named.values() for item in site.data.get("catalogue", [])))
    request = data.get("request") or {}
    if folders and isinstance(request, Mapping):
        result["request"] = {**request, "catalogue": [*folders, *(request.get("catalogue") or [])]}
