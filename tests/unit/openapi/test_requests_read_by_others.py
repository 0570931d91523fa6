"""Requests of operations, read by other libraries: `openapi-core`, `uritemplate` (RFC 6570) and `werkzeug`."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
import uritemplate
from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from fairlead_api.documents.catalog import SentCredential
from fairlead_api.documents.operations import Operation, OperationBody, OperationParameter, PartEncoding, Style
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_openapi.calling.requests import build_request
from fairlead_openapi.calling.values import arguments_of
from operationoracle import FORM, Case, cases, read_by_openapi_core

TEXTS = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable() and not set("./\\;% ") & set(text))
VALUES = st.one_of(
    TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3)
)
TEMPLATES = {"simple": "{x%s}", "label": "{.x%s}", "matrix": "{;x%s}", "form": "{?x%s}"}


def build(operation: Operation, arguments: dict[str, Any]) -> Any:
    return build_request(operation, arguments_of(json.dumps(arguments).encode()), b"/", SentCredential())


@settings(max_examples=150, deadline=None)
@given(cases())
def test_openapi_core_reads_each_argument_in_its_place(case: Case) -> None:
    assert read_by_openapi_core(case, case.request()) == case.expected


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize("style", TEMPLATES)
@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_styles_are_those_of_uri_templates(style: Style, explode: bool, value: Any) -> None:
    value = dict(sorted(value.items())) if isinstance(value, dict) else value  # as `uritemplate` does
    location: Any = "query" if style == "form" else "path"
    parameter = OperationParameter(argument="x", name="x", location=location, style=style, explode=explode)
    operation = Operation(method="GET", path="/p" if style == "form" else "/{x}", parameters=(parameter,))
    expanded = uritemplate.expand(TEMPLATES[style] % ("*" if explode else ""), x=value)
    prefix = "/p" if style == "form" else "/"
    assert build(operation, {"x": value}).target.decode() == prefix + expanded


TEXT = st.text(max_size=20)
FILES = st.binary(max_size=60) | st.sampled_from([b"\r\n--fairlead-", b"--", b"\r\n\r\n"])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), TEXT, max_size=3), FILES)
def test_werkzeug_reads_multipart_bodies(texts: dict[str, str], data: bytes) -> None:
    # browsers write a quotation mark in a name as %22, which readers cannot distinguish from these three characters
    texts = {name: text for name, text in texts.items() if name.isprintable() and not re.search(r'"|\\|%22', name)}
    texts.pop("file", None)
    body = OperationBody(
        media_type="multipart/form-data",
        properties={**{name: name for name in texts}, "file": "file"},
        encodings={"file": PartEncoding(binary=True)},
    )
    operation = Operation(method="POST", path="/p", body=body)
    request = build(operation, {**texts, "file": base64.b64encode(data).decode()})
    content_type = request.lines.decode().partition("Content-Type: ")[2].strip()
    mimetype, options = parse_options_header(content_type)
    _, form, files = FormDataParser().parse(io.BytesIO(request.body), mimetype, len(request.body), options)
    with contextlib.closing(files["file"]) as file:
        assert dict(form.items()) == texts
        assert file.read() == data
        assert file.filename == "file"


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), TEXT | st.lists(TEXT, max_size=3), min_size=1, max_size=4))
def test_forms_are_read_back(values: dict[str, Any]) -> None:
    body = OperationBody(media_type=FORM, properties={name: name for name in values})
    request = build(Operation(method="POST", path="/p", body=body), values)
    expected = [
        (name, text) for name, value in values.items() for text in ([value] if isinstance(value, str) else value)
    ]
    assert parse_qsl(request.body.decode(), keep_blank_values=True) == expected


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_no_value_leaves_its_place(segment: str, value: str) -> None:
    parameters = (
        OperationParameter(argument="a", name="a", location="path"),
        OperationParameter(argument="q", name="q", location="query", style="form", allow_reserved=True),
        OperationParameter(argument="h", name="X-H", location="header"),
        OperationParameter(argument="c", name="c", location="cookie", style="form"),
    )
    operation = Operation(method="GET", path="/a/{a}/b", parameters=parameters)
    arguments = {"a": segment, "q": value, "h": value, "c": value}
    try:
        request = build(operation, arguments)
    except ArgumentsRefused:
        return
    path, _, query = request.target.decode().partition("?")
    assert request.target.isascii()
    assert not set(b" \r\n\t#") & set(request.target)
    assert [part != "" for part in path.split("/")] == [False, True, True, True]
    assert query.count("&") == 0
    assert query.startswith("q=")
    assert [line.partition(b":")[0] for line in request.lines.split(b"\r\n")] == [
        b"Accept",
        b"Accept-Encoding",
        b"User-Agent",
        b"X-H",
        b"Cookie",
        b"",
    ]
