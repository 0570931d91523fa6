"""JSON in and out: bodies are bounded and typed, answers are encoded once.

Used by every resource. Types are msgspec structs, from which `openapi` takes the schemas too.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response
from msgspec import Raw

from fairlead_gateway.rest.problems import BODY_TOO_LARGE, INVALID_ARGUMENTS, UNSUPPORTED_MEDIA_TYPE, Problem

Body = TypeVar("Body")


async def read(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes of it. Raises Problem; never holds more than the limit and one piece."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Problem(UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    too_large = Problem(BODY_TOO_LARGE, f"the body is larger than {limit} bytes")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large
    return bytes(body)


def decode(body: bytes | Raw, kind: type[Body]) -> Body:
    """The body as a struct. Raises Problem, which says where in the body it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(INVALID_ARGUMENTS, f"the body: {error}") from error
    except RecursionError as error:
        raise Problem(INVALID_ARGUMENTS, "the body is nested too deeply") from error


def answer(content: Any, status: int = 200) -> Response:
    """A JSON answer; bytes are taken as encoded already."""
    body = content if isinstance(content, bytes) else encode(content)
    return Response(body, status, media_type="application/json")


encode = msgspec.json.Encoder().encode
