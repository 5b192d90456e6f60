"""The application: routes, what stands before them, and errors in one shape."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from oneglance.server.admit import RETRY_SECONDS
from oneglance.server.description import openapi, responses
from oneglance.server.errors import INVALID_REQUEST, ApiError, draining, internal
from oneglance.server.guard import CLIENT_LEFT, Guard
from oneglance.server.http import ClientLeftError, JsonAnswer
from oneglance.server.page import page_routes
from oneglance.server.routes import api_routes
from oneglance.server.service import Service


def make_app(service: Service) -> ASGIApp:
    """The whole application for a service."""
    routes = FastAPI(
        title="oneglance",
        version=version("oneglance"),
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            ClientLeftError: _client_left,
            ClientDisconnect: _client_left,  # before its body was whole
            Exception: _fault,
        },
    )
    routes.include_router(api_routes(service))
    if service.settings.page:
        routes.include_router(page_routes(service))
    _add_operations(routes, service)
    routes.openapi = lambda: openapi(routes)  # type: ignore[method-assign]
    guarded = Guard(routes, service)
    if not service.settings.cors_origins:
        return guarded
    return CORSMiddleware(
        guarded,
        allow_origins=service.settings.cors_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
        expose_headers=["x-request-id"],
    )


def _add_operations(routes: FastAPI, service: Service) -> None:
    @routes.get("/health", responses=responses("application/json"))
    async def health() -> Response:
        """Says that the process answers."""
        return JsonAnswer({"status": "ok"})

    @routes.get("/ready", responses=responses("application/json", 503))
    async def ready() -> Response:
        """Says whether new requests are taken."""
        if not service.traffic.is_draining:
            return JsonAnswer({"status": "ready"})
        return draining(RETRY_SECONDS).response()

    @routes.get("/metrics", responses=responses("text/plain", 401))
    async def metrics() -> Response:
        """The figures of this server, in the text format of Prometheus."""
        return Response(service.metrics.page(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    facts = request.scope["state"]["facts"]
    facts |= {"param": error.param, "code": error.code}
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        message = f"There is no {request.url.path!r} here; see /openapi.json for what there is."
    elif error.status_code == 405:
        message = f"{request.method} is not what {request.url.path!r} takes."
    else:
        message = str(error.detail)
    headers = dict(error.headers or {})
    return ApiError(error.status_code, message, kind=INVALID_REQUEST, headers=headers).response()


async def _client_left(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return Response(status_code=CLIENT_LEFT)  # nobody reads it, but the log does


async def _fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """The answer to a fault of ours, which the guard logs."""
    return internal(request.scope["state"]["request_id"]).response()
