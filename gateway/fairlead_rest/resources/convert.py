"""`POST /v1/convert`: definitions from any format to any other, and `/v1/convert/messages`: calls and their results.

All of it is the caller's own, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_formats.tools.between import Conversion
from fairlead_rest import jobs
from fairlead_rest.bodies import encoded
from fairlead_rest.context import RestContext, format_called
from fairlead_rest.examples import conversions as examples
from fairlead_rest.jobs import ConvertBody, ConvertedBody, ConvertedMessages, Declined, MessagesBody
from fairlead_rest.openapi import described
from fairlead_rest.problems import INTERNAL, INVALID_ARGUMENTS, RATE_LIMITED, Problem
from fairlead_rest.process import NotDone, Overloaded
from fairlead_rest.throttle import by_process, in_thread
from fairlead_rest.worker import breathing

SMALL: Final = 32 << 10
"""Bytes of a body that is converted in this process: about fifty tools, a few milliseconds with breaths in between."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/convert`."""
    routes = APIRouter(prefix="/v1", tags=["formats"])

    @routes.post(
        "/convert",
        **described("Convert tool definitions", Conversion, examples.CONVERTED, ConvertBody, examples.CONVERT),
    )
    async def convert(request: Request) -> Response:
        body = await context.pieces(request)
        return _answer(await _done(context, jobs.CONVERT, body, _convert_here))

    @routes.post(
        "/convert/messages",
        **described("Convert calls and results", ConvertedMessages, examples.SAID, MessagesBody, examples.SAY),
    )
    async def convert_messages(request: Request) -> Response:
        body = await context.pieces(request)
        return _answer(await _done(context, jobs.MESSAGES, body, jobs.convert_messages))

    return routes


def _convert_here(body: bytes) -> ConvertedBody | Declined:
    """The loop waits for two tools at most, 0.1 ms."""
    return jobs.convert(body, pace=partial(breathing, stride=2))


async def _done(
    context: RestContext, job: str, body: list[bytes], here: Callable[[bytes], ConvertedBody | Declined]
) -> ConvertedBody | Declined:
    """Small bodies by `here`, in this process; larger ones in another. Raises Problem."""
    size = sum(map(len, body))
    try:
        if size <= SMALL:
            await context.throttle.turn(in_thread(size))
        elif context.converting is not None:
            await context.throttle.turn(by_process(size))
            made: ConvertedBody | Declined = await context.converting.do(job, body)
            return made
        return await context.worker.do(lambda: here(b"".join(body)))
    except Overloaded as error:
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    except NotDone as error:
        raise Problem(INTERNAL, f"the conversion failed: {error}") from error


def _answer(made: ConvertedBody | Declined) -> Response:
    """Raises Problem."""
    if isinstance(made, ConvertedBody):
        return encoded(made.parts)
    if made.unknown_format:
        format_called(made.unknown_format)
    raise Problem(INVALID_ARGUMENTS, made.unreadable)
