"""Exception handlers that answer all errors of a FastAPI application with problem documents."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fairlead_offers.problems import INVALID_ARGUMENTS, METHOD_NOT_ALLOWED, NOT_FOUND, Problem
from fairlead_web.problem_responses import internal_error, problem_response

_ENDPOINTS: Final = (
    "MCP is at /mcp, and for a single server at /servers/NAMESPACE/NAME/mcp; REST is below /v1, and "
    "the console, if it is turned on, is at /console/"
)
"""Hint for unknown paths, such as the root that a browser opens."""


def handle_problems(app: FastAPI) -> None:
    """Install the handlers for all errors of `app`, including errors of the framework."""

    @app.exception_handler(Problem)
    async def handle_problem(request: Request, problem: Problem) -> Response:
        return problem_response(problem)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        complaints = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return problem_response(Problem(INVALID_ARGUMENTS, complaints))

    @app.exception_handler(HTTPException)
    async def handle_http_exception(request: Request, error: HTTPException) -> Response:
        # only the router raises HTTPException, with 404 or 405; all other refusals are Problems
        code = METHOD_NOT_ALLOWED if error.status_code == 405 else NOT_FOUND
        detail = f"{request.method} {request.url.path}: {error.detail}"
        answer = problem_response(Problem(code, f"{detail}; {_ENDPOINTS}" if code == NOT_FOUND else detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def handle_failure(request: Request, error: Exception) -> Response:
        return internal_error()
