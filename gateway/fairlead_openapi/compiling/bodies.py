"""The body of a request as arguments of its tool. No I/O.

Properties of a plain object become arguments of their own. Any other body is one argument, so that `allOf`, `oneOf` and
other rules hold for the whole.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from fairlead_api.documents.operations import OperationBody, PartEncoding, Style
from fairlead_mcp.schemas import Schema
from fairlead_openapi.compiling.media_types import BodyKind, choose, kind_of, sendable_type
from fairlead_openapi.compiling.naming import ArgumentNames
from fairlead_openapi.compiling.parameters import Argument, with_description
from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.report import OperationLoss
from fairlead_openapi.compiling.schemas import PortableSchema, SchemaConverter
from fairlead_openapi.compiling.shapes import UnusablePart, mapping, text

_PLAIN_KEYWORDS: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "examples"}
)
"""Keywords of an object whose properties may stand alone."""
_FORM_STYLES: Final[tuple[Style, ...]] = ("form", "spaceDelimited", "pipeDelimited", "deepObject")
_STYLE_FIELDS: Final = frozenset({"style", "explode", "allowReserved"})
"""Fields of an Encoding Object by which its `contentType` is ignored (OpenAPI 3.1, section 4.8.15.1)."""
_BASE64: Final = "Base64."


class BodyArguments(msgspec.Struct, frozen=True):
    """The body of one operation; `body` is None without one."""

    body: OperationBody | None = None
    arguments: tuple[Argument, ...] = ()
    definitions: frozenset[str] = frozenset()
    losses: tuple[OperationLoss, ...] = ()


class BodyReader:
    """Reader of one operation's Request Body Object."""

    def __init__(self, schemas: SchemaConverter, references: DocumentReferences, names: ArgumentNames) -> None:
        self._schemas = schemas
        self._references = references
        self._names = names

    def read(self, value: Any) -> BodyArguments:
        """Read a body; None means no body. Raises UnusablePart if requests need the body and it cannot be made."""
        body_object = mapping(self._references.resolve(value), "`requestBody`")
        content = mapping(body_object.get("content"), "`content` of `requestBody`")
        media_type = choose(content)
        if media_type is None:
            return BodyArguments()
        required = body_object.get("required") is True
        kind = kind_of(media_type)
        if kind == "unsupported":
            problem = f"bodies of {media_type!r} cannot be made"
            if required:
                raise UnusablePart(problem)
            return BodyArguments(losses=(OperationLoss("body", "", problem),))
        media = mapping(self._references.resolve(content[media_type]), f"`content` of {media_type}")
        return self._make(kind, media_type, media, body_object, required)

    def _make(
        self, kind: BodyKind, media_type: str, media: dict[str, Any], body_object: dict[str, Any], required: bool
    ) -> BodyArguments:
        sent_type = sendable_type(media_type)
        if kind == "binary":
            schema = with_description(
                {"type": "string", "contentEncoding": "base64", "description": _BASE64}, body_object
            )
            return self._whole_body(sent_type, PortableSchema(schema, frozenset()), required, binary=True)
        if kind in ("text", "other text"):
            return self._text_body(kind, sent_type, body_object, required)
        source = media.get("schema", True)
        encoding = self._encoding(kind, media)
        if kind == "multipart":
            source = self._schemas.target_of(source)  # resolved, because binary properties become base64
        converted = self._schemas.convert(source)
        if kind == "multipart":
            converted = _with_base64(converted, encoding)
        plain_object = self._plain_object(converted, source)
        if plain_object is not None and (required or not plain_object.required):
            return self._flat_body(sent_type, plain_object, encoding, required)
        if kind != "json" and converted.schema is True:
            converted = PortableSchema({"type": "object"}, frozenset())
        described_schema = with_description(converted.schema, body_object)
        whole_schema = PortableSchema(described_schema, converted.names, converted.losses)
        return self._whole_body(sent_type, whole_schema, required, encodings=encoding)

    def _text_body(self, kind: BodyKind, sent_type: str, body_object: dict[str, Any], required: bool) -> BodyArguments:
        schema = with_description({"type": "string", "description": f"Text of {sent_type}."}, body_object)
        arguments = self._whole_body(sent_type, PortableSchema(schema, frozenset()), required)
        if kind == "text":
            return arguments
        loss = OperationLoss(
            "media-type", arguments.arguments[0].name, f"the body of {sent_type} is given as text, without structure"
        )
        return msgspec.structs.replace(arguments, losses=(loss,))

    def _whole_body(
        self,
        sent_type: str,
        converted: PortableSchema,
        required: bool,
        *,
        binary: bool = False,
        encodings: dict[str, PartEncoding] | None = None,
    ) -> BodyArguments:
        argument = self._names.allot("body", "request")
        return BodyArguments(
            OperationBody(
                media_type=sent_type, argument=argument, required=required, binary=binary, encodings=encodings or {}
            ),
            (Argument(argument, converted.schema, required),),
            converted.names,
            tuple(OperationLoss(loss.kind, argument, loss.message) for loss in converted.losses),
        )

    def _flat_body(
        self, sent_type: str, plain_object: _PlainObject, encoding: dict[str, PartEncoding], required: bool
    ) -> BodyArguments:
        arguments, properties = [], {}
        for name, schema in plain_object.properties.items():
            argument = self._names.allot(name, "body")
            properties[argument] = name
            arguments.append(Argument(argument, schema, name in plain_object.required))
        return BodyArguments(
            OperationBody(media_type=sent_type, properties=properties, required=required, encodings=encoding),
            tuple(arguments),
            plain_object.names,
            tuple(OperationLoss(loss.kind, "body", loss.message) for loss in plain_object.losses),
        )

    def _plain_object(self, converted: PortableSchema, source: Any) -> _PlainObject | None:
        """The object if its properties can be arguments; None for any other schema."""
        schema = converted.schema
        if isinstance(schema, dict) and "$ref" in schema and len(schema.keys() - {"title", "description"}) == 1:
            try:
                converted = self._schemas.convert(self._schemas.target_of(source))
            except UnusablePart:
                return None
            schema = converted.schema
        if (
            not isinstance(schema, dict)
            or not schema.keys() <= _PLAIN_KEYWORDS
            or schema.get("type", "object") != "object"
        ):
            return None
        properties = schema.get("properties")
        if properties is None or schema.get("additionalProperties", False) is not False:
            return None
        required = frozenset(schema.get("required", ()))
        if not required <= properties.keys() or False in properties.values():
            return None
        return _PlainObject(properties, required, converted.names, converted.losses)

    def _encoding(self, kind: BodyKind, media: dict[str, Any]) -> dict[str, PartEncoding]:
        if kind not in ("form", "multipart"):
            return {}
        encodings: dict[str, PartEncoding] = {}
        styles_parts = kind == "multipart" and not self._schemas.dialect_3_0
        encoding_objects = media.get("encoding")
        for name, value in encoding_objects.items() if isinstance(encoding_objects, dict) else ():
            if isinstance(value, dict):
                style = value.get("style", "form")
                explode = value.get("explode")
                encodings[name] = PartEncoding(
                    content_type=text(value.get("contentType")),
                    style=cast("Style", style) if style in _FORM_STYLES else "form",
                    explode=explode if isinstance(explode, bool) else style == "form",
                    allow_reserved=value.get("allowReserved") is True,
                    styled=styles_parts and not _STYLE_FIELDS.isdisjoint(value),
                )
        if kind == "multipart":
            for name in self._binary_properties(media.get("schema")):
                encodings[name] = msgspec.structs.replace(encodings.get(name, PartEncoding()), binary=True)
        return encodings

    def _binary_properties(self, schema: Any) -> list[str]:
        """Properties that are bytes, by `format: binary`, or by `contentMediaType` without `contentEncoding`."""
        try:
            target = self._schemas.target_of(schema)
            properties = target.get("properties") if isinstance(target, dict) else None
            items = properties.items() if isinstance(properties, dict) else ()
            return [name for name, value in items if self._is_binary(value)]
        except UnusablePart:
            return []

    def _is_binary(self, schema: Any) -> bool:
        target = self._schemas.target_of(schema)
        if not isinstance(target, dict):
            return False
        if target.get("type") == "array":
            return "items" in target and self._is_binary(target["items"])
        if target.get("format") == "binary":
            return True
        return "contentMediaType" in target and "contentEncoding" not in target


class _PlainObject(msgspec.Struct, frozen=True):
    """An object schema whose rules concern single properties, so that the properties can become arguments."""

    properties: dict[str, Schema | bool]
    required: frozenset[str]
    names: frozenset[str]
    losses: tuple[OperationLoss, ...]


def _with_base64(converted: PortableSchema, encoding: dict[str, PartEncoding]) -> PortableSchema:
    """The schema of a multipart body, in which binary properties say that they are base64."""
    schema = converted.schema
    binary_names = {name for name, part_encoding in encoding.items() if part_encoding.binary}
    if not binary_names or not isinstance(schema, dict):
        return converted
    properties = schema.get("properties", {})
    new_properties = {name: _base64_schema(part) if name in binary_names else part for name, part in properties.items()}
    return PortableSchema({**schema, "properties": new_properties}, converted.names, converted.losses)


def _base64_schema(schema: Schema | bool) -> Schema | bool:
    if not isinstance(schema, dict):
        return {"type": "string", "contentEncoding": "base64", "description": _BASE64}
    if schema.get("type") == "array":
        return {**schema, "items": _base64_schema(schema.get("items", True))}
    description = " ".join(filter(None, (schema.get("description", ""), _BASE64)))
    return {"type": "string", "contentEncoding": "base64", "description": description}
