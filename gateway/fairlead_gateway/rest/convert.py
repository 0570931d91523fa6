"""`POST /v1/convert`: definitions from any format to any other, and `/v1/convert/messages`: calls and their results.

All of it is the caller's own, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_gateway.formats.between import Conversion
from fairlead_gateway.rest import jobs
from fairlead_gateway.rest.bodies import answer, read
from fairlead_gateway.rest.examples import conversions as examples
from fairlead_gateway.rest.jobs import ConvertBody, ConvertedMessages, MessagesBody
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane, format_called
from fairlead_gateway.rest.pool import NotDone, Overloaded
from fairlead_gateway.rest.problems import INTERNAL, INVALID_ARGUMENTS, RATE_LIMITED, Problem
from fairlead_gateway.rest.worker import breathing

SMALL: Final = 32 << 10
"""Bytes of a body that is converted in this process: about fifty tools, a few milliseconds with breaths in between."""


def router(plane: Plane) -> APIRouter:
    """The resource `/v1/convert`."""
    routes = APIRouter(prefix="/v1", tags=["formats"])

    @routes.post(
        "/convert",
        **described("Convert tool definitions", Conversion, examples.CONVERTED, ConvertBody, examples.CONVERT),
    )
    async def convert(request: Request) -> Response:
        body = await read(request, plane.max_body)
        work = partial(jobs.convert, body, pace=breathing)
        return answer(read_answer(await _done(plane, jobs.CONVERT, body, work)))

    @routes.post(
        "/convert/messages",
        **described("Convert calls and results", ConvertedMessages, examples.SAID, MessagesBody, examples.SAY),
    )
    async def convert_messages(request: Request) -> Response:
        body = await read(request, plane.max_body)
        work = partial(jobs.convert_messages, body)
        return answer(read_answer(await _done(plane, jobs.MESSAGES, body, work)))

    return routes


async def _done(plane: Plane, job: str, body: bytes, work: Callable[[], jobs.Answer]) -> jobs.Answer:
    """Small bodies here, by `work`; larger ones in a process. Raises Problem."""
    if len(body) <= SMALL or plane.converting is None:
        return await plane.worker.do(work)
    try:
        made: jobs.Answer = await plane.converting.do(job, body)
    except Overloaded as error:
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    except NotDone as error:
        raise Problem(INTERNAL, f"the conversion failed: {error}") from error
    return made


def read_answer(made: jobs.Answer) -> bytes:
    """The body of the answer. Raises Problem."""
    if made.unknown_format:
        format_called(made.unknown_format)
    if made.unreadable:
        raise Problem(INVALID_ARGUMENTS, made.unreadable)
    return bytes(made.body)
