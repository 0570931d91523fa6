"""Writes the refusals of a FastAPI application as problem documents."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fairlead_offers.problems import INVALID_ARGUMENTS, METHOD_NOT_ALLOWED, NOT_FOUND, Problem
from fairlead_web.problem_responses import failure, problem_response

_PATHS: Final = (
    "MCP is spoken at /mcp, with one server alone at /servers/NAMESPACE/NAME/mcp; REST is below /v1; "
    "the console, where there is one, is at /console/"
)
"""Answer to a browser at the address of the gateway alone."""


def handle_problems(app: FastAPI) -> None:
    """Have every refusal of `app` written as a problem document, those of the framework included."""

    @app.exception_handler(Problem)
    async def ours(request: Request, problem: Problem) -> Response:
        return problem_response(problem)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        complaints = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return problem_response(Problem(INVALID_ARGUMENTS, complaints))

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        code = METHOD_NOT_ALLOWED if error.status_code == 405 else NOT_FOUND
        what = f"{request.method} {request.url.path}: {error.detail}"
        answer = problem_response(Problem(code, f"{what}; {_PATHS}" if code == NOT_FOUND else what))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return failure()
