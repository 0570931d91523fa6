"""REST resources `POST /v1/executions` and `/v1/context`: the router endpoint's `execute_tool` and
`retrieve_context`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import Raw

from fairlead_gateway.calls.path.direct import DirectCall, Origin, UnknownToolAnswer
from fairlead_gateway.calls.results.context_recorder import BadSession
from fairlead_gateway.core.long_results import LEAST_TOKENS
from fairlead_gateway.result_stores.store import ContextUnavailable
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.documents import decode
from fairlead_offers.problems import CONNECTION_LOST, INVALID_ARGUMENTS, Problem
from fairlead_offers.results.session_context import DEFAULT_TOKENS, MAX_QUERY, RetrieveArguments, RetrievedContext
from fairlead_offers.run.tool_calls_body import ResultTokens
from fairlead_rest.context import RestContext
from fairlead_rest.examples import context as examples
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer

Words = Annotated[str | None, Query(max_length=MAX_QUERY)]


class ExecutionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Call of a tool, and the session in which its result is stored."""

    name: str
    arguments: dict[str, Raw] = {}
    session_id: str | None = None
    """Session id from an earlier result; default: a new session."""
    tier: str | None = None
    result_tokens: ResultTokens | None = msgspec.field(name="resultTokens", default=None)
    """Maximum tokens of the result. A longer result is cut to its beginning, end and shape."""


class ExecutionAnswer(msgspec.Struct, frozen=True):
    """MCP result of a call. Its `_meta["fairlead.dev/context"]` has `sessionId`, `recorded` and `entryId`."""

    result: Raw


class Forgotten(msgspec.Struct, frozen=True):
    """Deleted results of a session."""

    entries: int
    """Number of deleted results."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/executions` and `/v1/context`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["calls"])

    @routes.post(
        "/executions",
        **describe_route(
            "Call a tool and store its result", ExecutionAnswer, examples.EXECUTED, ExecutionBody, examples.EXECUTION
        ),
    )
    async def execute(request: Request) -> Response:
        execution = decode(await context.read(request), ExecutionBody)
        return answer(await context.when_ready(request, lambda catalog: _execute(context, request, catalog, execution)))

    @routes.get("/context", **describe_route("Read stored results", RetrievedContext, examples.RETRIEVED))
    async def retrieve(
        request: Request,
        session_id: Words = None,
        query: Words = None,
        entry_id: Words = None,
        path: Words = None,
        lines: Annotated[str | None, Query(alias="range", max_length=MAX_QUERY)] = None,
        grep: Words = None,
        token_budget: Annotated[int, Query(alias="tokenBudget", ge=LEAST_TOKENS, le=100_000)] = DEFAULT_TOKENS,
    ) -> Response:
        arguments = RetrieveArguments(session_id, query, entry_id, path, lines, grep, token_budget)
        return answer(await services.results.retrieve(context.catalog(request), arguments))

    @routes.delete("/context", **describe_route("Delete the results of a session", Forgotten, examples.FORGOTTEN))
    async def forget(request: Request, session_id: Annotated[str, Query(max_length=MAX_QUERY)]) -> Response:
        try:
            return answer(
                Forgotten(await services.results.recorder.forget(context.catalog(request).identity, session_id))
            )
        except ContextUnavailable as error:
            raise Problem(CONNECTION_LOST, str(error)) from error

    return routes


async def _execute(
    context: RestContext, request: Request, catalog: SubjectCatalog, execution: ExecutionBody
) -> ExecutionAnswer:
    """Call a tool and store its result. Raises Problem."""
    services = context.services
    recorder, arguments = services.results.recorder, msgspec.json.encode(execution.arguments)
    try:
        session = recorder.session(catalog.identity, execution.session_id)
    except BadSession as error:
        raise Problem(INVALID_ARGUMENTS, str(error)) from error
    visible = services.catalogs.find_visible_tools(catalog, execution.tier)
    if visible is None:
        visible = await services.work.do(lambda: services.catalogs.visible_tools(catalog, execution.tier))
    entry = (
        visible.find(execution.name)
        or visible.find_hidden(execution.name)
        or visible.find_reader(execution.name)
        or visible.tool(execution.name)
    )
    origin = Origin(request.client.host if request.client else "", dict(request.headers.raw), catalog.identity)
    direct_call = DirectCall(entry.name, arguments, result_tokens=execution.result_tokens, recording=session)
    result = await services.caller.call(origin, visible.view, direct_call)
    if isinstance(result, UnknownToolAnswer):
        raise Problem(INVALID_ARGUMENTS, result.message)
    services.counts.count_call(catalog.identity.principal, entry.name)
    return ExecutionAnswer(result)
