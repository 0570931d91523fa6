"""`POST /v1/convert`: definitions of the caller's own, from any format to any other. Nothing of them is kept."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_gateway.formats.between import Conversion, between
from fairlead_gateway.formats.format import GEMINI_JSON_SCHEMA, GeminiField, Options
from fairlead_gateway.rest import examples
from fairlead_gateway.rest.bodies import answer, decode, encode, read
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane, format_called
from fairlead_gateway.rest.worker import breathing


class ConvertBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tools to convert: a list, one tool, or a request that holds them."""

    source: str = msgspec.field(name="from")
    to: str
    tools: Any
    strict: bool = False
    model: str | None = None
    """Who reads the tools, where rules differ within a format."""
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA


def router(plane: Plane) -> APIRouter:
    """The resource `/v1/convert`."""
    routes = APIRouter(prefix="/v1", tags=["formats"])

    @routes.post(
        "/convert",
        **described("Convert tool definitions", Conversion, examples.CONVERTED, ConvertBody, examples.CONVERT),
    )
    async def convert(request: Request) -> Response:
        body = await read(request, plane.max_body)
        return answer(await plane.worker.do(lambda: converted(body)))

    return routes


def converted(body: bytes) -> bytes:
    """The answer to a body, encoded. Raises Problem."""
    asked = decode(body, ConvertBody)
    source, target = format_called(asked.source), format_called(asked.to)
    options = Options(strict=asked.strict, model=asked.model, gemini_field=asked.gemini_field)
    return encode(between(asked.tools, source, target, options, pace=breathing))
