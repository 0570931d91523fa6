"""The successful answers of an operation: the media types to accept, and the `outputSchema` of its tool. No I/O."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from fairlead_mcp.schemas import Schema
from fairlead_openapi.compiling.media_types import JSON, is_header_value, is_json
from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.schemas import PortableSchema, SchemaConverter
from fairlead_openapi.compiling.shapes import UnusablePart

RESULT: Final = "result"
"""Property that wraps a JSON answer that is not an object."""
_SUCCESS: Final = re.compile(r"2(\d\d|[xX][xX])\Z")
_MAX_ACCEPTED: Final = 4
_MAX_DEPTH: Final = 16
"""Maximum number of references and combinations that are followed to find the type of an answer."""


class AnswerShape(msgspec.Struct, frozen=True):
    """Successful answers of an operation."""

    accept: str
    """Value of the header `Accept`."""
    schema: Schema | None = None
    """Schema of an object, without definitions; None: answers stay text, or bytes."""
    definitions: frozenset[str] = frozenset()
    wrapped: bool = False
    """Whether answers are put into the property `result`."""
    note: str = ""
    """Why there is no schema; empty if there is a schema, or if nothing states one."""


class ResponseReader:
    """Reader of Responses Objects."""

    def __init__(self, schemas: SchemaConverter, references: DocumentReferences) -> None:
        self._schemas = schemas
        self._references = references

    def read(self, responses: Any) -> AnswerShape:
        """Read the answers of one operation. Raises nothing: answers that cannot be read stay text."""
        try:
            contents = self._successful(responses)
        except UnusablePart as error:
            return AnswerShape("*/*", note=f"results stay text: {error}")
        media_types = list(dict.fromkeys(name for content in contents for name in content))
        json_types = [name for name in media_types if is_json(name)]
        accept = ", ".join((json_types or media_types)[:_MAX_ACCEPTED]) or "*/*"
        accept = accept if is_header_value(accept) else "*/*"
        if not json_types:
            return AnswerShape(accept)
        if accept == "*/*":
            accept = JSON
        schemas = []
        for content in contents:
            media = next((media for name, media in content.items() if is_json(name)), None)
            if media is None:
                return AnswerShape(accept, note="results stay text, as some successful answers are not JSON")
            schemas += [media.get("schema") if isinstance(media, dict) else None]
        if any(schema != schemas[0] for schema in schemas):
            return AnswerShape(accept, note="results stay text, as successful answers have several schemas")
        return self._structured(accept, schemas[0])

    def _structured(self, accept: str, schema: Any) -> AnswerShape:
        if schema is None:
            return AnswerShape(accept)
        converted = self._schemas.convert(schema)
        _, losses = self._schemas.definitions(converted.names)
        if converted.losses or losses:
            message = (converted.losses or losses)[0].message
            return AnswerShape(accept, note=f"results stay text, as their schema cannot be used: {message}")
        is_object = self._is_object(converted, 0)
        if is_object is None:
            return AnswerShape(accept, note="results stay text, as their schema does not say whether they are objects")
        if is_object:
            assert isinstance(converted.schema, dict)
            return AnswerShape(accept, {"type": "object", **converted.schema}, converted.names)
        wrapper = {"type": "object", "properties": {RESULT: converted.schema}, "required": [RESULT]}
        return AnswerShape(accept, wrapper, converted.names, wrapped=True)

    def _successful(self, responses: Any) -> list[dict[str, Any]]:
        """`content` of each 2xx answer; without a 2xx answer, `content` of `default`. Raises UnusablePart."""
        if not isinstance(responses, dict):
            return []
        successful_responses = [value for code, value in responses.items() if _SUCCESS.match(str(code))]
        if not successful_responses and "default" in responses:
            successful_responses = [responses["default"]]
        contents = []
        for value in successful_responses:
            response = self._references.resolve(value)
            content = response.get("content") if isinstance(response, dict) else None
            contents.append(content if isinstance(content, dict) else {})
        return contents

    def _is_object(self, converted: PortableSchema, depth: int) -> bool | None:
        """Whether all values of a schema are objects, or none of them; None if the schema does not say."""
        definitions, _ = self._schemas.definitions(converted.names)
        return _says_object(converted.schema, definitions, depth)


def _says_object(schema: Schema | bool, definitions: dict[str, Schema | bool], depth: int) -> bool | None:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    type_keyword = schema.get("type")
    if isinstance(type_keyword, str):
        return type_keyword == "object"
    if isinstance(type_keyword, list):
        return None if "object" in type_keyword else False
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        return _says_object(definitions.get(name, True), definitions, depth + 1)
    for part in schema.get("allOf", ()):
        verdict = _says_object(part, definitions, depth + 1)
        if verdict is not None:
            return verdict
    for keyword in ("anyOf", "oneOf"):
        verdicts = {_says_object(part, definitions, depth + 1) for part in schema.get(keyword, ())}
        if len(verdicts) == 1:
            return verdicts.pop()
    return None
