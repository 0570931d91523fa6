"""Operations with arguments of all kinds, and what `openapi-core` reads in the requests that are made of them.

case = data.draw(cases())
assert read_by_openapi_core(case, case.request()) == case.expected
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, unquote

from hypothesis import strategies as st
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

from fairlead_api.documents.catalog import SentCredential
from fairlead_api.documents.operations import Operation, OperationBody, OperationParameter, Style
from fairlead_openapi.calling.requests import HttpRequest, build_request
from fairlead_openapi.calling.values import arguments_of

Location: TypeAlias = Literal["path", "query", "header", "cookie"]
HOST = "http://api.example"
BASE = b"/api/v2"
_NAMES_IN_PATHS = ("%s", ".%s", ".%s*", ";%s", ";%s*")
"""Names under which `openapi-core` looks up a path's values, depending on their style."""
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(2**40), 2**40),
    "boolean": st.booleans(),
    "string": st.text("abcXYZ019 &=;#%+?\"'<>~*$!@ü€😀", min_size=1, max_size=12),
}
PLAIN = st.text("abcXYZ019&=;#%+?~*ü€", min_size=1, max_size=8)
"""Characters of list items, without delimiters: servers decode before they split."""
NAMES = st.text("abcdefgXYZ_", min_size=1, max_size=6)
FORM = "application/x-www-form-urlencoded"
# `openapi-core` looks for the delimiter %20 of `spaceDelimited` in values that are already decoded
STYLES: dict[Location, list[tuple[Style, bool]]] = {
    "path": [(style, explode) for style in ("simple", "label", "matrix") for explode in (False, True)],
    "query": [
        ("form", True),
        ("form", False),
        ("pipeDelimited", False),
        ("deepObject", True),
    ],
    "header": [("simple", False), ("simple", True)],
    "cookie": [("form", True)],
}


@dataclass
class Case:
    """One operation with its arguments. `expected` contains the values by location and name, and the body."""

    operation: Operation
    document: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)

    def request(self) -> HttpRequest:
        return build_request(self.operation, arguments_of(json.dumps(self.arguments).encode()), BASE, SentCredential())


class ReadRequest:
    """The bytes of a request, as `openapi_core.protocols.Request`.

    Values in the path are extracted before the path is decoded, as routers of servers do, while `openapi-core` splits a
    path that is decoded already. Raises AssertionError for a path that does not match `template`, such as
    `/api/v2/things/{id}`.
    """

    def __init__(self, request: HttpRequest, template: str, host_url: str = HOST) -> None:
        path, _, query = request.target.decode().partition("?")
        lines = request.lines.decode().split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
        cookies = dict(headers).get("Cookie", "")
        pairs = [pair.partition("=") for pair in cookies.split("; ") if pair]
        names = _TEMPLATE.findall(template)
        values = re.fullmatch("([^/]+)".join(map(re.escape, _TEMPLATE.sub("{", template).split("{"))), path)
        assert values is not None, f"{path} is not a path of {template}"
        self.host_url = host_url
        self.path = path
        self.path_pattern = template
        self.method = request.method.lower()
        self.body = request.body
        self.content_type = dict(headers).get("Content-Type", "application/octet-stream")
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))),
            header=Headers(headers),
            cookie=ImmutableMultiDict([(unquote(name), unquote(value)) for name, _, value in pairs]),
            path={
                written % name: unquote(value)
                for name, value in zip(names, values.groups(), strict=True)
                for written in _NAMES_IN_PATHS
            },
        )


def read_by_openapi_core(case: Case, request: HttpRequest) -> dict[str, Any]:
    """Values by location and name, and the body."""
    result = OpenAPI.from_dict(case.document).unmarshal_request(
        ReadRequest(request, BASE.decode() + case.operation.path)
    )
    assert result.errors == []
    return {
        **{location: dict(getattr(result.parameters, location)) for location in STYLES},
        "body": result.body,
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(NAMES, min_size=0, max_size=5, unique_by=str.lower))
    path, parameters, documented = "/things", [], []
    arguments: dict[str, Any] = {}
    expected: dict[str, Any] = {**{location: {} for location in STYLES}, "body": None}
    for number, name in enumerate(names):
        location = draw(st.sampled_from(sorted(STYLES)))
        style, explode = draw(st.sampled_from(STYLES[location]))
        schema, value = draw(_value(location, style, explode=explode))
        argument = f"{name}_{number}"
        parameters.append(
            OperationParameter(argument=argument, name=name, location=location, style=style, explode=explode)
        )
        documented.append(
            {"name": name, "in": location, "style": style, "explode": explode, "required": True, "schema": schema}
        )
        if location == "path":
            path += f"/{{{name}}}"
        arguments[argument] = expected[location][name] = value
    media_type, properties = draw(st.sampled_from(["", "application/json", FORM])), {}
    if media_type:
        properties = draw(st.dictionaries(NAMES, st.sampled_from(sorted(SCALARS)), min_size=1, max_size=3))
        expected["body"] = {name: draw(SCALARS[kind]) for name, kind in properties.items()}
        arguments |= {f"body_{name}": value for name, value in expected["body"].items()}
    body = OperationBody(media_type=media_type, properties={f"body_{name}": name for name in properties})
    operation: dict[str, Any] = {"parameters": documented, "responses": {"200": {"description": ""}}}
    if media_type:
        schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
        operation["requestBody"] = {"content": {media_type: {"schema": schema}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "things", "version": "1"},
        "servers": [{"url": HOST + BASE.decode()}],
        "paths": {path: {"post": operation}},
    }
    made = Operation(method="POST", path=path, parameters=tuple(parameters), body=body if media_type else None)
    return Case(made, document, arguments, expected)


@st.composite
def _value(draw: st.DrawFn, location: str, style: str, *, explode: bool) -> tuple[dict[str, Any], Any]:
    """A schema and a matching value, of a kind that the style supports and `openapi-core` can read."""
    kinds = {"pipeDelimited": ["array"], "deepObject": ["object"]}.get(
        style, ["array", "scalar"] if location != "cookie" else ["scalar"]
    )
    if location in ("path", "header"):
        kinds = [*kinds, "object"]
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        name = draw(st.sampled_from(sorted(SCALARS)))
        value = draw(SCALARS[name])
        if style == "label" and name == "string":
            value = f"x{value}"  # whitespace or ";" after the style's dot would make a dot segment, which is refused
        if location == "header" and name == "string":
            value = draw(st.text("abc019 &=;#", max_size=8)).strip() or "x"
        return {"type": name}, value
    items = st.text("abcXYZ019", min_size=1, max_size=6) if location in ("path", "header") else PLAIN
    if kind == "array":
        return {"type": "array", "items": {"type": "string"}}, draw(st.lists(items, min_size=1, max_size=4))
    members = draw(st.dictionaries(NAMES, items, min_size=1, max_size=3))
    return {"type": "object", "properties": {name: {"type": "string"} for name in members}}, members
