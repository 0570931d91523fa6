"""Requests for operations of real OpenAPI documents, checked by `openapi-core` against the original documents.

oracle = DocumentOracle(file)
for tool in oracle.tools:
    for judgement in oracle.judge(tool, requests=2): ...

Arguments come from the `inputSchema` of each tool, and are the same in each run.
"""

from __future__ import annotations

import base64
import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
import rstr
import yaml
from openapi_core import Config, OpenAPI
from openapi_core.casting.schemas import oas30_write_schema_casters_factory, oas31_schema_casters_factory
from openapi_core.deserializing.styles import StyleDeserializersFactory, style_deserializers
from openapi_core.security.factories import SecurityProviderFactory
from openapi_core.security.providers import BaseProvider, UnsupportedProvider
from openapi_core.unmarshalling.request.datatypes import RequestUnmarshalResult
from openapi_core.validation.request.exceptions import RequestBodyValidationError
from werkzeug.datastructures import ImmutableMultiDict
from werkzeug.http import parse_options_header

from fairlead_api.documents.catalog import Credential, SentCredential
from fairlead_api.documents.operations import Operation
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_openapi.calling.credentials import credential_for
from fairlead_openapi.calling.requests import build_request
from fairlead_openapi.calling.values import arguments_of
from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.report import CompiledTool, SecurityScheme
from fairlead_tools.validation.schema_compiler import compile_schema
from formats.instances import Instances
from formreaders import FORM_READERS, read_multipart
from operationoracle import FORM, ReadRequest
from oraclelimits import limit_of

FORMS: Final = (FORM, "multipart/form-data")
URL: Final = "https://api.example/openapi.json"
"""Address of each document. The URLs of its servers may be relative to it."""
WORDS: Final = ("a", "A1", "hello world", "x-1", "2026-01-02", "42", "äöü€", "https://example.com/?a=b&c=d#e", "50%;+")
"""Text arguments. None is empty, because `openapi-core` rejects an empty value in a query."""
SIZE: Final = "definitions beyond the maximum size"
"""Limit of tools that are converted with this loss: their schemas accept more than the document's."""
ATTEMPTS: Final = 12
"""Values that are generated for one request; not all of them match the schema."""


@dataclass(frozen=True)
class Judgement:
    """Judgement of the oracle on one request. If it read the given values, `fault` and `limit` are empty."""

    tool: str
    arguments: dict[str, Any]
    fault: str = ""
    limit: str = ""
    """One of `oraclelimits`, or SIZE, if the oracle cannot judge the request."""


class _SecurityProviders(SecurityProviderFactory):
    PROVIDERS: dict[str, type[BaseProvider]] = {  # noqa: RUF012  # as in the base class
        **SecurityProviderFactory.PROVIDERS,
        "mutualTLS": UnsupportedProvider,  # set by the connection
    }


class DocumentOracle:
    """One document, its tools, and `openapi-core` for it."""

    def __init__(self, file: Path) -> None:
        data = file.read_bytes()
        self.compiled = compile_document(data, CompileOptions(url=URL))
        self.document: dict[str, Any] = (
            json.loads(data) if file.suffix == ".json" else yaml.load(data, yaml.CSafeLoader)
        )
        formats = [*_formats(self.document)]
        is_3_0 = str(self.document["openapi"]).startswith("3.0")
        casters = oas30_write_schema_casters_factory if is_3_0 else oas31_schema_casters_factory
        binary_types = {_media_type(tool.operation) for tool in self.compiled.tools if _is_binary(tool.operation)}
        binary_types |= {"application/octet-stream"}
        json_types = {_media_type(tool.operation) for tool in self.compiled.tools} | {"*/*", "application/*"}
        self._oversized = {
            report.tool for report in self.compiled.reports if any(loss.kind == "size" for loss in report.losses)
        }
        self._paths = {report.tool: report.operation.partition(" ")[2] for report in self.compiled.reports}
        self._openapi = OpenAPI.from_dict(
            self.document,
            config=Config(
                spec_validator_cls=None,
                style_deserializers_factory=StyleDeserializersFactory(casters, {**style_deserializers, **FORM_READERS}),
                extra_media_type_deserializers={
                    **dict.fromkeys((each for each in json_types if each.endswith(("json", "*"))), _read_json),
                    **dict.fromkeys(binary_types, _read_bytes),
                    "multipart/form-data": read_multipart,
                },
                extra_format_validators=dict.fromkeys(formats, _takes_all),  # Fairlead's schemas do not enforce formats
                extra_format_unmarshallers=dict.fromkeys(formats, _as_it_is),
                security_provider_factory=_SecurityProviders(),
            ),
        )
        self._credential = Credential(
            schemes={name: _credential_for(each) for name, each in self.compiled.schemes.items()}
        )

    def judge(self, tool: CompiledTool, requests: int) -> Iterator[Judgement]:
        """Judge requests with arguments that the tool's schema accepts; fewer than `requests` if such arguments are
        rare.
        """
        operation = tool.operation
        url = urlsplit(operation.base_url or self.compiled.base_url)
        credential = credential_for(operation, self._credential)
        for arguments in islice(_arguments(tool), requests):
            given = arguments_of(json.dumps(arguments).encode())
            try:
                request = build_request(operation, given, url.path.encode(), credential)
            except ArgumentsRefused as error:
                yield Judgement(tool.name, arguments, f"refused: {error}")
                continue
            read = ReadRequest(request, url.path + operation.path, f"{url.scheme}://{url.netloc}")
            read.path_pattern = url.path + self._paths[tool.name]  # a key of `paths` may contain a fragment
            yield self._judgement(tool, arguments, read)

    def _judgement(self, tool: CompiledTool, arguments: dict[str, Any], read: ReadRequest) -> Judgement:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about deprecated parameters
            result = self._openapi.unmarshal_request(read)
        if not result.errors:
            return Judgement(tool.name, arguments, _fault(tool.operation, arguments, read, result))
        limits = [self._limit(tool, error) for error in result.errors]
        if all(limits):
            return Judgement(tool.name, arguments, limit=limits[0])
        return Judgement(tool.name, arguments, "; ".join(map(_messages_of, result.errors)))

    def _limit(self, tool: CompiledTool, error: Exception) -> str:
        of_body = isinstance(error, RequestBodyValidationError)
        pairs = not of_body or _media_type(tool.operation) in FORMS
        return limit_of(error, pairs=pairs) or (SIZE if of_body and tool.name in self._oversized else "")


def _fault(operation: Operation, arguments: dict[str, Any], read: ReadRequest, result: RequestUnmarshalResult) -> str:
    """Difference between the values read and the arguments; empty if there is none."""
    for parameter in operation.parameters:
        name, location = parameter.name, parameter.location
        sent = read.parameters[location]
        value = getattr(result.parameters, location).get(name)
        given = arguments.get(parameter.argument)
        if given is None and name in sent:
            return f"{name} in {location} is sent and was not given"
        if given is not None and not (_is_same(value, given) or _is_same(_values(sent, name), given)):
            return f"{name} in {location} is {value!r}, not {given!r}"
    return _fault_of_body(operation, arguments, read, result.body)


def _fault_of_body(operation: Operation, arguments: dict[str, Any], read: ReadRequest, body: Any) -> str:
    described = operation.body
    if described is None:
        return "a body is sent" if read.body is not None else ""
    names = {described.argument: ""} if described.argument else described.properties
    if not names.keys() & arguments.keys():
        return "" if read.body in (None, b"", b"{}") else f"the body {read.body!r} is sent and was not given"
    if described.argument:
        given = arguments[described.argument]
    else:
        given = {name: arguments[argument] for argument, name in names.items() if argument in arguments}
    if _media_type(operation).endswith("json"):
        body = json.loads(read.body or b"")
        return "" if body == given else f"the body is {body!r}, not {given!r}"
    if _media_type(operation) not in FORMS:
        return "" if _is_same(body, given) else f"the body is {body!r}, not {given!r}"
    pairs = _pairs(read)
    for name, value in given.items():
        if not _is_same((body or {}).get(name), value) and not _is_same(_values(pairs, name), value):
            return f"{name} of the form is {(body or {}).get(name)!r}, not {value!r}"
    return ""


def _pairs(read: ReadRequest) -> Mapping[str, Any]:
    """Pairs of a form."""
    media_type, parameters = parse_options_header(read.content_type)
    data = read.body or b""
    if media_type == FORM:
        return ImmutableMultiDict(parse_qsl(data.decode(), keep_blank_values=True))
    return read_multipart(data, **parameters)


def _values(pairs: Any, name: str) -> Any:
    """Value of a name that `openapi-core` does not decode, because the schema has no type or does not contain the
    name.
    """
    values = pairs.getlist(name) if isinstance(pairs, ImmutableMultiDict) else [pairs[name]] if name in pairs else []
    return values[0] if len(values) == 1 else values


def _is_same(read: Any, given: Any) -> bool:
    """Whether a value equals the given one. Texts without a type in the schema are compared as texts."""
    if isinstance(given, dict) and isinstance(read, dict):
        return all(_is_same(read.get(name), value) for name, value in given.items())
    if isinstance(given, list) and isinstance(read, list):
        return len(given) == len(read) and all(map(_is_same, read, given))
    if isinstance(read, bytes):
        return isinstance(given, str) and read in (given.encode(), base64.b64decode(given))
    if isinstance(read, str) and not isinstance(given, str):
        return any(map(_is_same, _readings(read), [given] * 3))
    return bool(read == given) or (isinstance(given, str) and json.dumps(read) == given)


def _readings(text: str) -> Iterator[Any]:
    """Possible values of a text to which a schema gives no type."""
    yield [text]
    if "," in text:
        yield text.split(",")
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if not isinstance(value, str):
            yield value


def _is_empty(value: Any) -> bool:
    """Whether a value, or a part of it, has no pair in a path, a query or a form."""
    if isinstance(value, dict):
        return not value or any(map(_is_empty, value.values()))
    return value is None or (isinstance(value, list) and (not value or any(map(_is_empty, value))))


def _messages_of(error: Exception) -> str:
    """Messages of an error's causes."""
    causes: list[str] = []
    step: BaseException | None = error
    while step is not None:
        causes += [str(step)[:300]]
        causes += [each.message[:300] for each in getattr(step, "schema_errors", ())]
        step = step.__cause__ or step.__context__
    return f"{type(error).__name__}: " + " < ".join(dict.fromkeys(causes))


def _arguments(tool: CompiledTool) -> Iterator[dict[str, Any]]:
    """Arguments that the tool's schema accepts."""
    schema = msgspec.json.decode(tool.definition)["inputSchema"]
    checker = compile_schema(schema, of_objects=True).checker
    for number in range(1000):
        for attempt in range(ATTEMPTS):
            chance = Random(f"{tool.name} {number} {attempt}")
            value = Instances(schema, chance, words=WORDS, matching=rstr.Rstr(chance).xeger).value()
            fits = checker is None or checker.argument_errors(json.dumps(value).encode()) is None
            if fits and not any(_is_empty(value[name]) for name in _pair_arguments(tool.operation) & value.keys()):
                yield value
                break


def _pair_arguments(operation: Operation) -> set[str]:
    """Arguments that are encoded as pairs of names and texts. Null and an empty list have no pair."""
    names = {parameter.argument for parameter in operation.parameters}
    if operation.body is not None and _media_type(operation) in FORMS:
        names |= {operation.body.argument, *operation.body.properties}
    return names


def _credential_for(scheme: SecurityScheme) -> SentCredential:
    """A credential for a security scheme."""
    match scheme.type, scheme.location:
        case "apiKey", "query":
            return SentCredential(query={scheme.name: "key"})
        case "apiKey", "cookie":
            return SentCredential(cookies={scheme.name: "key"})
        case "apiKey", _:
            return SentCredential(headers={scheme.name: "key"})
    return SentCredential(headers={"Authorization": f"{scheme.scheme or 'bearer'} dTpw"})


def _media_type(operation: Operation) -> str:
    return "" if operation.body is None else operation.body.media_type.partition(";")[0].strip().lower()


def _is_binary(operation: Operation) -> bool:
    return operation.body is not None and operation.body.binary


def _formats(value: Any) -> Iterator[str]:
    """Names of all formats in a document."""
    if isinstance(value, dict):
        stated = value.get("format")
        if isinstance(stated, str):
            yield stated
        value = list(value.values())
    for below in value if isinstance(value, list) else ():
        yield from _formats(below)


def _takes_all(value: Any) -> bool:
    return True


def _as_it_is(value: Any) -> Any:
    return value


def _read_bytes(body: bytes | str, **parameters: str) -> str:
    return body if isinstance(body, str) else base64.b64encode(body).decode()


def _read_json(body: bytes, **parameters: str) -> Any:
    return json.loads(body)
