"""OpenAPI document of the REST API: FastAPI's document, with schemas of msgspec structs, and examples of requests and
answers.

Resources describe their routes by `describe_route`, and `application` serves the document.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fairlead_offers.problems import ProblemDocument
from fairlead_rest.examples import tools as examples
from fairlead_web.problem_responses import MEDIA_TYPE

_REF: Final = "#/components/schemas/{name}"
_SCHEMAS: Final = "x-schemas"
"""Member of a route's description that holds the schemas of its types, until `describe` moves them to `components`."""


def describe_route(
    summary: str,
    answer_type: Any,
    examples_of_answers: dict[str, Any],
    body: type[msgspec.Struct] | None = None,
    examples_of_bodies: dict[str, Any] | None = None,
    *,
    status: int = 200,
    media_type: str = "application/json",
) -> dict[str, Any]:
    """Make FastAPI's keyword arguments for a route. `answer_type` is the struct of the answer, or a union of structs;
    for an event stream, it is the struct of its events. Examples of answers and bodies are given by their names.
    """
    kinds = [ProblemDocument, *_members(answer_type), *([body] if body is not None else [])]
    extra: dict[str, Any] = {_SCHEMAS: msgspec.json.schema_components(kinds, ref_template=_REF)[1]}
    if body is not None:
        extra["requestBody"] = {
            "required": True,
            "content": {"application/json": _content(body, examples_of_bodies or {})},
        }
    problem = {"$ref": _REF.format(name=ProblemDocument.__name__)}
    return {
        "summary": summary,
        "response_model": None,
        "responses": {
            status: {"description": "Success", "content": {media_type: _content(answer_type, examples_of_answers)}},
            "default": {
                "description": "Problem document (RFC 9457)",
                "content": {MEDIA_TYPE: {"schema": problem, "example": examples.PROBLEM}},
            },
        },
        "openapi_extra": extra,
    }


def describe(app: FastAPI) -> None:
    """Make `app` serve the complete document at its `openapi_url`."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            openapi_document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            schemas: dict[str, Any] = {}
            for operation in (each for path in openapi_document["paths"].values() for each in path.values()):
                schemas.update(operation.pop(_SCHEMAS, {}))
                operation["responses"].pop("422", None)
            openapi_document["components"] = {"schemas": dict(sorted(schemas.items()))}
            app.openapi_schema = openapi_document
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI documents it


def _content(kind: Any, examples_by_name: dict[str, Any]) -> dict[str, Any]:
    references = [{"$ref": _REF.format(name=member.__name__)} for member in _members(kind)]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"schema": schema, "examples": {name: {"value": value} for name, value in examples_by_name.items()}}


def _members(kind: Any) -> Iterator[type]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        yield from get_args(kind)
    else:
        yield kind
