"""Sites as lines, as YAML and as JSON; and what is wrong with them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.sitefiles import search_path, site_files
from modak_deploy.documents.sites import Site, Sites, load_site_settings, read_site_file
from modak_deploy.errors import InputError, ModakError, TargetError, all_of
from modak_deploy.model.target import Target
from modak_deploy.transport.connect import check_reachable


def listing(sites: Sites, *, as_json: bool) -> str:
    """Return one line for each site, or a JSON list."""
    described = [site for name in sites.names() if (site := sites.find(name)) is not None]
    if as_json:
        return json.dumps([_summary(site) for site in described], indent=2) + "\n"
    if not described:
        return f"no site is described in {', '.join(search_path())}; add one with 'modak site add USER@HOST'\n"
    rows = [("name", "type", "host", "described in", "description")]
    for site in described:
        values = _summary(site)
        off = "" if values["enabled"] else "(not enabled) "
        rows.append((site.name, values["type"], values["host"] or "-", values["source"], off + values["description"]))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]]).rstrip() + "\n"
        for row in rows
    )


def _summary(site: Site) -> dict[str, Any]:
    settings = site.settings
    return {
        "name": site.name,
        "type": settings.target.type or "machine",
        "host": settings.target.host,
        "description": settings.description or "",
        "enabled": settings.enabled,
        "source": str(site.position),
        "files": [str(document.path) for document in site.documents],
    }


def shown(site: Site, *, as_json: bool) -> str:
    """Return the merged settings of a site, and which files they come from."""
    _ = site.settings  # what is wrong is said before anything is shown
    if as_json:
        return json.dumps({**_summary(site), "settings": site.data}, indent=2) + "\n"
    heads = [f"# {document.locate(('sites', site.name))}\n" for document in reversed(site.documents)]
    body = yaml.safe_dump(
        {site.name: dict(site.data)}, sort_keys=False, width=110, allow_unicode=True, default_flow_style=None
    )
    return "".join(heads) + body


def check_files() -> str:
    """Check all files of sites; InputError has the problems of all, and one line for each file is returned."""
    lines, errors, files = [], [], []
    for file in site_files():
        try:
            read = read_site_file(file)
        except ModakError as error:
            errors.append(error)
            continue
        files.append(read)
        count = len(read.content.sites)
        lines.append(f"{file.path}: {count} site{'' if count == 1 else 's'}\n")
    if not errors:
        for name in (sites := Sites(files)).names():
            try:
                _ = (sites.find(name) or sites.get(name)).settings
            except ModakError as error:
                errors.append(error)
    if errors:
        raise InputError(all_of(errors))
    return "".join(lines) or f"no file of sites; searched in {', '.join(search_path())}\n"


def check_targets(names: Sequence[str], config: Path | None) -> str:
    """Ask these sites about themselves; TargetError lists where a description differs from what is reported."""
    from modak_deploy.discovery import differences
    from modak_deploy.sites.adding import ask_target

    sites, diagnostics = load_site_settings(), []
    for site in [sites.get(name, ()) for name in names]:
        data = {"name": site.name, **site.settings.target.model_dump(mode="json", exclude_unset=True)}
        target = Target.model_validate(data)
        position = site.position
        check_reachable(target, "'modak site check'", source=position.source, line=position.line)
        runtimes = site.settings.software.runtimes
        facts = ask_target(target, target, config, runtimes=list(runtimes))
        diagnostics += [
            Diagnostic(f"{site.name}: {text}", "target-differs", source=position.source, line=position.line)
            for text in differences(target, facts, runtimes)
        ]
    if diagnostics:
        raise TargetError(diagnostics)
    return "".join(f"{name}: as described\n" for name in names)
