"""REST resources `POST /v1/convert` and `/v1/convert/messages`: convert the caller's definitions, calls and results
between formats.

Nothing of the caller's data is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_formats.tools.between import Conversion
from fairlead_offers.conversion import jobs
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.conversion.jobs import ConversionFailure, ConvertBody, ConvertedMessages, MessagesBody
from fairlead_offers.job import ConvertedBody, Job
from fairlead_offers.problems import INTERNAL, INVALID_ARGUMENTS, RATE_LIMITED, Problem
from fairlead_offers.workers.heavy_work import HeavyWork, with_pauses
from fairlead_offers.workers.process import NotDone, Overloaded
from fairlead_offers.workers.throttle import process_cost, thread_cost
from fairlead_rest.context import RestContext
from fairlead_rest.examples import conversions as examples
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import json_response

MAX_LOCAL_BYTES: Final = 32 << 10
"""Maximum size in bytes of a body that is converted in this process. It has about fifty tools, whose conversion takes a
few milliseconds, pauses included.
"""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/convert`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["formats"])

    @routes.post(
        "/convert",
        **describe_route("Convert tool definitions", Conversion, examples.CONVERTED, ConvertBody, examples.CONVERT),
    )
    async def convert(request: Request) -> Response:
        body = await context.pieces(request)
        return _answer(await _finish(services.work, jobs.CONVERT, body, _convert_here))

    @routes.post(
        "/convert/messages",
        **describe_route("Convert calls and results", ConvertedMessages, examples.SAID, MessagesBody, examples.SAY),
    )
    async def convert_messages(request: Request) -> Response:
        body = await context.pieces(request)
        return _answer(await _finish(services.work, jobs.MESSAGES, body, jobs.convert_messages))

    return routes


def _convert_here(body: bytes) -> ConvertedBody | ConversionFailure:
    """Convert a body with pauses, so that the event loop never waits for more than two tools, about 0.1 ms."""
    return jobs.convert(body, pace=partial(with_pauses, stride=2))


async def _finish(
    work: HeavyWork,
    job: Job[ConvertedBody | ConversionFailure],
    body: list[bytes],
    convert_here: Callable[[bytes], ConvertedBody | ConversionFailure],
) -> ConvertedBody | ConversionFailure:
    """Convert a small body by `convert_here` in this process, and a larger body in another process. Raises Problem."""
    size = sum(map(len, body))
    try:
        if size <= MAX_LOCAL_BYTES:
            await work.throttle.turn(thread_cost(size))
        elif work.conversion_pool is not None:
            await work.throttle.turn(process_cost(size))
            return await work.conversion_pool.do(job, body)
        return await work.do(lambda: convert_here(b"".join(body)))
    except Overloaded as error:
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    except NotDone as error:
        raise Problem(INTERNAL, f"the conversion failed: {error}") from error


def _answer(outcome: ConvertedBody | ConversionFailure) -> Response:
    """Make the response of a conversion. Raises Problem for a declined conversion."""
    if isinstance(outcome, ConvertedBody):
        return json_response(outcome.parts)
    if outcome.unknown_format:
        find_format(outcome.unknown_format)
    raise Problem(INVALID_ARGUMENTS, outcome.unreadable)
