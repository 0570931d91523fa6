"""One operation of a document as a tool. No I/O."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.operations import Operation
from fairlead_mcp.schemas import Schema
from fairlead_openapi.compiling.answers import AnswerShape, ResponseReader
from fairlead_openapi.compiling.bodies import BodyArguments, BodyReader
from fairlead_openapi.compiling.naming import ArgumentNames, OperationKey
from fairlead_openapi.compiling.parameters import Argument, ParameterReader, ParameterSet, merge_parameters
from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.report import CompiledTool, OperationLoss, SecurityScheme
from fairlead_openapi.compiling.schemas import SchemaConverter
from fairlead_openapi.compiling.security import security_alternatives
from fairlead_openapi.compiling.servers import base_url
from fairlead_openapi.compiling.shapes import UnusablePart, text
from fairlead_tools.validation.schema_compiler import compile_schema

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""Members of a Path Item Object that are operations."""
MAX_INPUT_BYTES: Final = 256 << 10
"""Maximum size of an `inputSchema` in bytes; an operation that needs more is left out. Above
`schema_compiler.MAX_SCHEMA_BYTES`, which is smaller, arguments are not validated, which is a loss of the operation.
"""
MAX_DEFINITION_BYTES: Final = 64 << 10
"""Maximum size in bytes of all definitions (`$defs`) of an `inputSchema` together, some 16,000 tokens. A definition
that does not fit is replaced by `{}`, which allows any value.
"""
MAX_OUTPUT_BYTES: Final = 64 << 10
"""Maximum size of an `outputSchema` in bytes; a larger one is left out, and results are text."""
MAX_DESCRIPTION: Final = 8192
"""Maximum number of characters of a description."""
_MAX_TITLE: Final = 200
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_IDEMPOTENT_METHODS: Final = _SAFE_METHODS | {"PUT", "DELETE"}
_DESTRUCTIVE_METHODS: Final = frozenset({"PUT", "PATCH", "DELETE"})
"""Methods that replace, modify or remove what exists (RFC 9110 section 9.3, RFC 5789). MCP's `destructiveHint` is false
only for "additive updates".
"""
_BODILESS_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods whose body "SHALL be ignored" in OpenAPI 3.0 (section 4.7.10.1)."""


class DocumentContext(msgspec.Struct, frozen=True):
    """Parts that all operations of a document share."""

    document: dict[str, Any]
    url: str
    """Absolute URL of the document; empty if unknown."""
    dialect_3_0: bool
    references: DocumentReferences
    schemes: dict[str, SecurityScheme]
    requests: SchemaConverter
    results: SchemaConverter


class ToolWithLosses(msgspec.Struct, frozen=True):
    """A tool, and the parts of its operation that the tool cannot express."""

    tool: CompiledTool
    losses: tuple[OperationLoss, ...]
    notes: tuple[str, ...]


class OperationCompiler:
    """Compiler of the operations of one document."""

    def __init__(self, context: DocumentContext) -> None:
        self._context = context
        self._answers = ResponseReader(context.results, context.references)
        self._unchecked_reasons: dict[bytes, str] = {}
        """Why a schema of results cannot be checked completely, by schema; operations often share one."""

    def compile(
        self, key: OperationKey, name: str, path_item: dict[str, Any], operation: dict[str, Any]
    ) -> ToolWithLosses:
        """Make the tool of one operation. Raises UnusablePart if no request for the operation can be made."""
        context = self._context
        if key.method == "TRACE":
            raise UnusablePart("TRACE returns the request with its credentials")
        if not key.path.startswith("/"):
            raise UnusablePart("the path does not begin with /")
        losses: list[OperationLoss] = []
        arguments = ArgumentNames()
        parameters = ParameterReader(key.path, context.requests, context.schemes, arguments).read(
            merge_parameters(path_item, operation, context.references)
        )
        body = self._body(key, operation, arguments, losses)
        answer = self._answers.read(operation.get("responses"))
        schema, definition_losses = self._input_schema(parameters, body)
        losses += [*parameters.losses, *body.losses, *definition_losses]
        encoded_input, unchecked_losses = _encode_input(schema)
        losses += unchecked_losses
        output, note = self._output_schema(answer)
        compiled_operation = Operation(
            method=key.method,
            path=key.path.partition("#")[0],  # documents of AWS tell operations apart by fragments
            base_url=self._own_base_url(path_item, operation),
            parameters=parameters.parameters,
            body=body.body,
            accept=answer.accept,
            structured=output is not None,
            wrapped=output is not None and answer.wrapped,
            security=security_alternatives(operation, context.document),
        )
        definition = _definition(name, key, operation, encoded_input, output)
        notes = (*parameters.notes, *([note] if note else ()))
        tool = CompiledTool(name, definition, compiled_operation)
        return ToolWithLosses(tool, tuple(dict.fromkeys(losses)), notes)

    def _body(
        self, key: OperationKey, operation: dict[str, Any], names: ArgumentNames, losses: list[OperationLoss]
    ) -> BodyArguments:
        request_body = operation.get("requestBody")
        if request_body is None:
            return BodyArguments()
        body = BodyReader(self._context.requests, self._context.references, names).read(request_body)
        if key.method not in _BODILESS_METHODS or not self._context.dialect_3_0:
            return body
        if body.arguments:
            losses.append(OperationLoss("body", "", f"a {key.method} request has no body in OpenAPI 3.0"))
        return BodyArguments()

    def _input_schema(self, parameters: ParameterSet, body: BodyArguments) -> tuple[Schema, tuple[OperationLoss, ...]]:
        arguments: list[Argument] = [*parameters.arguments, *body.arguments]
        schema: Schema = {
            "type": "object",
            "properties": {argument.name: argument.schema for argument in arguments},
            "required": [argument.name for argument in arguments if argument.required],
            "additionalProperties": False,
        }
        if not schema["required"]:
            del schema["required"]
        names = parameters.definitions | body.definitions
        definitions, losses = self._context.requests.definitions_within(names, MAX_DEFINITION_BYTES)
        if definitions:
            schema["$defs"] = definitions
        return schema, losses

    def _output_schema(self, answer: AnswerShape) -> tuple[bytes | None, str]:
        """The `outputSchema` as JSON, or why there is none."""
        if answer.schema is None:
            return None, answer.note
        schema = dict(answer.schema)
        definitions, _ = self._context.results.definitions(answer.definitions)
        if definitions:
            schema["$defs"] = definitions
        try:
            encoded = _encode(schema)
        except UnusablePart as error:
            return None, f"results stay text, as their schema cannot be used: {error}"
        if len(encoded) > MAX_OUTPUT_BYTES:
            size = f"{len(encoded):,} bytes, more than {MAX_OUTPUT_BYTES:,}"
            return None, f"results stay text, as their schema has {size}"
        if encoded not in self._unchecked_reasons:
            problems = compile_schema(encoded).left_out
            self._unchecked_reasons[encoded] = problems[0].message if problems else ""
        unchecked_reason = self._unchecked_reasons[encoded]
        return (
            (None, f"results stay text, as their schema cannot be used: {unchecked_reason}")
            if unchecked_reason
            else (encoded, "")
        )

    def _own_base_url(self, path_item: dict[str, Any], operation: dict[str, Any]) -> str:
        """Base URL of the operation's or the path's own server; empty without one. Raises UnusablePart: the document's
        base URL may lead to another API, which must not get the operation's requests.
        """
        servers = operation.get("servers") or path_item.get("servers")
        if not servers:
            return ""
        try:
            return base_url(servers, self._context.url)
        except UnusablePart as error:
            raise UnusablePart(f"its own server cannot be used: {error}") from error


def _encode_input(schema: Schema) -> tuple[bytes, list[OperationLoss]]:
    """The `inputSchema` as JSON, and what of it cannot be checked. Raises UnusablePart."""
    encoded = _encode(schema)
    if len(encoded) > MAX_INPUT_BYTES:
        raise UnusablePart(f"the schema of its arguments has {len(encoded):,} bytes, more than {MAX_INPUT_BYTES:,}")
    problems = compile_schema(encoded, of_objects=True).left_out
    return encoded, [OperationLoss("unchecked", "", problem.message) for problem in problems]


def _encode(schema: Schema) -> bytes:
    try:
        return msgspec.json.encode(schema)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise UnusablePart(f"a schema is not JSON: {error}") from error


def _definition(
    name: str, key: OperationKey, operation: dict[str, Any], input_schema: bytes, output_schema: bytes | None
) -> Raw:
    summary = " ".join(text(operation.get("summary")).split())
    definition: dict[str, Any] = {
        "name": name,
        **({"title": summary[:_MAX_TITLE]} if summary else {}),
        "description": _description(key, operation, summary),
        "inputSchema": Raw(input_schema),
    }
    if output_schema is not None:
        definition["outputSchema"] = Raw(output_schema)
    definition["annotations"] = {
        "readOnlyHint": key.method in _SAFE_METHODS,
        "destructiveHint": key.method in _DESTRUCTIVE_METHODS,
        "idempotentHint": key.method in _IDEMPOTENT_METHODS,
    }
    return Raw(msgspec.json.encode(definition))


def _description(key: OperationKey, operation: dict[str, Any], summary: str) -> str:
    details = text(operation.get("description"))
    parts = [details] if details.startswith(summary) else [summary, details]
    description = "\n\n".join(part for part in parts if part) or str(key)
    if operation.get("deprecated") is True:
        description = f"Deprecated. {description}"
    return description if len(description) <= MAX_DESCRIPTION else f"{description[: MAX_DESCRIPTION - 1]}…"
