"""The application: routes, their description in OpenAPI, and what stands before them."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from modak_deploy import __version__
from modak_deploy.jobmodel.model import JobDocument
from modak_deploy.jobmodel.site import load_sites
from modak_deploy.model.base import Model
from modak_deploy.serve.body import Refusal, fault
from modak_deploy.serve.collections import BODIES
from modak_deploy.serve.limits import Limits, answer_of
from modak_deploy.serve.routes import Routes
from modak_deploy.serve.settings import Settings, is_loopback
from modak_deploy.serve.store import Store

_FAULTS = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["loc", "msg", "type"],
                "properties": {
                    "loc": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                    "msg": {"type": "string"},
                    "type": {"type": "string"},
                },
            },
        }
    },
}


def make_app(settings: Settings) -> Any:
    """Return the service as an ASGI application; InputError for settings that are not safe or sites that are wrong."""
    settings.check()
    routes = Routes(settings, Store(settings.folder, load_sites(settings.sites), settings.lifetime))
    app = FastAPI(
        title="modak",
        version=__version__,
        description="Plans AI and HPC jobs that are described by documents of the JSON job model.",
        exception_handlers={Refusal: _refused, HTTPException: _no_route, Exception: _failed},
    )
    app.add_api_route("/", routes.page, include_in_schema=False)
    app.add_api_route("/health", routes.health, tags=["service"])
    for name in ("optimise", "get_image", "get_build", "get_optimisation"):
        app.add_api_route(
            f"/{name}",
            getattr(routes, name),
            methods=["POST"],
            operation_id=name,
            tags=["jobs"],
            openapi_extra=_body("JobDocument", "JobDocument", "200"),
        )
    app.add_api_route(
        "/files/{key}/{name}", routes.script, operation_id="get_file", tags=["jobs"], openapi_extra=_text()
    )
    for name in BODIES:
        _add_entries(app, routes, name)
    _describe(app)
    hosts = ["*"] if not is_loopback(settings.host) else ["localhost", "127.0.0.1", "[::1]", settings.host]
    # A page in a browser cannot reach the service by a name of its own that leads here.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    return Limits(app, settings)


def _add_entries(app: FastAPI, routes: Routes, name: str) -> None:
    """Add the routes that list, return and add the entries of one kind."""
    model = BODIES[name].__name__
    described = _answers({"type": "array", "items": {"type": "object"}}, "200")
    app.add_api_route(
        f"/{name}", routes.listing(name), operation_id=f"list_{name}", tags=[name], openapi_extra=described
    )
    app.add_api_route(
        f"/{name}/{{identifier}}",
        routes.entry(name),
        operation_id=f"get_{name}",
        tags=[name],
        openapi_extra=_answers({"type": "object"}, "200"),
    )
    app.add_api_route(
        f"/{name}",
        routes.adding(name),
        methods=["POST"],
        status_code=201,
        operation_id=f"add_{name}",
        tags=[name],
        openapi_extra=_body(model, None, "201"),
    )


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal):
        raise error
    return answer_of(error)


async def _failed(_: Request, __: Exception) -> Response:
    return answer_of(Refusal(500, [fault("the service failed; its log says why", "internal")]))


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: f"there is no {request.url.path[:80]}", 405: f"{request.url.path[:80]} takes no {request.method}"}
    headers = dict(getattr(error, "headers", None) or {})
    return answer_of(
        Refusal(status, [fault(messages.get(status, "the request is wrong"), "not_found", "path")], headers)
    )


def _answers(schema: dict[str, Any], status: str) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    faults = {"description": "What is wrong", "content": {"application/json": {"schema": _FAULTS}}}
    return {"responses": {status: {"description": "The answer", "content": content}, "422": faults}}


def _body(model: str, answer: str | None, status: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model}"}
    returned = {"$ref": f"#/components/schemas/{answer}"} if answer else {"type": "object"}
    request = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": request, **_answers(returned, status)}


def _text() -> dict[str, Any]:
    return {"responses": {"200": {"description": "The script", "content": {"text/plain": {}}}}}


def _describe(app: FastAPI) -> None:
    """Add the job model's own schemas, which FastAPI does not see: bodies are read with the text of their numbers."""
    made = app.openapi()
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    models: list[type[Model]] = [JobDocument, *BODIES.values()]
    for model in models:
        schema = model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    made["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    made["security"] = [{"token": []}, {"key": []}, {}]
