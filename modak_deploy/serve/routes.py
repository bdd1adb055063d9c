"""What each route answers."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from html import escape
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from modak_deploy import __version__
from modak_deploy.errors import InfeasibleError, ModakError
from modak_deploy.jobmodel.answer import Answer, answer
from modak_deploy.jobmodel.model import without_blanks
from modak_deploy.jobmodel.recognise import is_job_document
from modak_deploy.serve.body import Refusal, fault, parse, refusal_of, without_empty, written
from modak_deploy.serve.collections import check_entry
from modak_deploy.serve.settings import Settings
from modak_deploy.serve.store import Exists, Store
from modak_deploy.terminal import visible

Answers = Callable[[Request], Any]

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>modak</title></head><body>
<h1>modak {version}</h1>
<p>This service plans AI and HPC jobs: it takes documents of the JSON job model, and answers with the same documents,
completed with the container image and the job's scripts. It runs nothing.</p>
<ul><li><a href="docs">What can be asked</a>, and the same <a href="openapi.json">for programs</a></li>
<li>Sites that jobs can name: {sites}</li></ul>
<p>Links to scripts are valid for {lifetime} seconds.</p>
</body></html>
"""


class Routes:
    """The routes over one store."""

    def __init__(self, settings: Settings, store: Store) -> None:
        """``settings`` say how long links are valid."""
        self._settings, self._store = settings, store

    async def page(self) -> Response:
        """Say what this is."""
        names = ", ".join(sorted(self._store.sites.sites_by_name)) or "none is described"
        text = _PAGE.format(version=__version__, sites=escape(names), lifetime=self._settings.lifetime)
        return HTMLResponse(text)

    async def health(self) -> dict[str, str]:
        """Answer that the service is there."""
        return {"status": "ok", "version": __version__}

    async def optimise(self, request: Request) -> Response:
        """Complete a document; its scripts are links, valid for the time that the header ``Expires`` names."""
        return await self._decided(request, self._with_links)

    async def get_image(self, request: Request) -> Response:
        """Choose the container image; one that the document names stays where nothing fits."""
        return await self._decided(request, _with_image, keeps_image=True)

    async def get_build(self, request: Request) -> Response:
        """Return the document with the link of its build script, if there is anything to build."""
        return await self._decided(request, self._with_build)

    async def get_optimisation(self, request: Request) -> Response:
        """Return the document with the text of its job script."""
        return await self._decided(request, _with_content)

    async def script(self, key: str, name: str) -> Response:
        """Return a script that an answer linked to; 404 once its time is over."""
        kept = await run_in_threadpool(self._store.script, key, name)
        if kept is None:
            raise Refusal(404, [fault("script not found, or its link is no longer valid", "not_found", "path")])
        text, end = kept
        return PlainTextResponse(text, headers={"Expires": formatdate(end, usegmt=True)})

    def listing(self, collection: str) -> Callable[[], Any]:
        """Return the route that lists a collection."""

        async def entries() -> Response:
            return JSONResponse([without_empty(entry) for entry in self._store.all(collection)])

        return entries

    def entry(self, collection: str) -> Callable[[str], Any]:
        """Return the route of one entry."""

        async def one(identifier: str) -> Response:
            entry = self._store.entry(collection, identifier)
            if entry is None:
                raise Refusal(404, [fault(f"there is no entry '{identifier[:80]}'", "not_found", "path", "id")])
            return JSONResponse(without_empty(entry))

        return one

    def adding(self, collection: str) -> Answers:
        """Return the route that adds an entry."""

        async def add(request: Request) -> Response:
            data = without_blanks(parse(await request.body()))
            if isinstance(data, dict) and "id" in data:
                raise Refusal(422, [fault("an entry gets its id here", "extra_forbidden", "body", "id")])
            return await run_in_threadpool(self._added, collection, data)

        return add

    def _added(self, collection: str, data: Any) -> Response:
        try:
            check_entry(collection, data)
            made = self._store.add(collection, data)
        except ModakError as error:
            raise refusal_of(error) from None
        except Exists:
            raise Refusal(409, [fault("there is such an entry already", "conflict")]) from None
        return JSONResponse(made, status_code=201, headers={"Location": f"{collection}/{made['id']}"})

    async def _decided(
        self, request: Request, shown: Callable[[Request, Answer], dict[str, Any]], *, keeps_image: bool = False
    ) -> Response:
        data = parse(await request.body())
        if not is_job_document(data):
            text = "the document's one key is 'job', with the section 'application' in it"
            raise Refusal(422, [fault(text, "value_error", "body", "job")])
        body, notes = await run_in_threadpool(self._decide, data, request, shown, keeps_image)
        headers = {"Expires": formatdate(time.time() + self._settings.lifetime, usegmt=True)}
        if notes:
            # A header holds ASCII on one line; whatever the document made of a note is escaped.
            line = visible("; ".join(notes)).replace("\n", "\\n")
            headers["X-Modak-Notes"] = line.encode("ascii", "backslashreplace").decode()[:4000]
        return JSONResponse(without_empty(body), headers=headers)

    def _decide(
        self,
        data: dict[str, Any],
        request: Request,
        shown: Callable[[Request, Answer], dict[str, Any]],
        keeps_image: bool,
    ) -> tuple[dict[str, Any], list[str]]:
        try:
            done = answer(
                data,
                sites=self._store.sites,
                now=datetime.now(UTC),
                origin="request",
                written=lambda location: written(data, location),
            )
        except ModakError as error:
            # What is infeasible has been read: the document is one of the job model.
            if (
                keeps_image
                and isinstance(error, InfeasibleError)
                and data["job"]["application"].get("container_runtime")
            ):
                return data, str(error).split("\n")
            raise refusal_of(error) from None
        return shown(request, done), list(done.assumed)

    def _with_links(self, request: Request, done: Answer) -> dict[str, Any]:
        job, build = done.names()
        texts = {job: done.job_script} | ({build: done.build_script} if done.build_script is not None else {})
        links = self._links(request, texts)
        body = _without(done.document, "job_content", "build_content")
        body["job"]["job_script"] = links[job]
        if done.build_script is not None:
            body["job"]["build_script"] = links[build]
        return body

    def _with_build(self, request: Request, done: Answer) -> dict[str, Any]:
        body = _without(done.document, "job_content", "build_content")
        _, build = done.names()
        if done.build_script is not None:
            body["job"]["build_script"] = self._links(request, {build: done.build_script})[build]
        return body

    def _links(self, request: Request, texts: Mapping[str, str]) -> dict[str, str]:
        base = (self._settings.public_url or str(request.base_url)).rstrip("/")
        return {name: f"{base}/{path}" for name, path in self._store.keep(texts).items()}


def _with_image(_: Request, done: Answer) -> dict[str, Any]:
    return _without(done.document, "job_content", "build_content")


def _with_content(_: Request, done: Answer) -> dict[str, Any]:
    return _without(done.document, "build_content")


def _without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the document of an answer, which is its own, without some of its parts."""
    body = {key: value for key, value in document["job"].items() if key not in keys}
    return {"job": body}
