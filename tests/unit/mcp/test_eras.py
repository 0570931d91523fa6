"""The rules of the two eras."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp import eras
from fairlead_mcp.errors import NotMcp, UnsupportedVersion

ME = eras.Client("me", "9")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("add", b"add"),
        ("a b", b"a b"),
        ("file:///x?y=1", b"file:///x?y=1"),
        ("", b"=?base64??="),
        (" a", b"=?base64?IGE=?="),
        ("é", b"=?base64?w6k=?="),
        ("a\r\nX: y", b"=?base64?YQ0KWDogeQ==?="),
        ("=?base64?YQ==?=", b"=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_a_header_value_is_plain_ascii_or_encoded(text: str, value: bytes) -> None:
    assert eras.header_value(text) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_header_value_survives_the_way_there_and_back(text: str) -> None:
    value = eras.header_value(text)
    assert eras.text_of_header(value) == text
    assert b"\r" not in value
    assert b"\n" not in value


def test_a_broken_encoding_of_a_header_is_refused() -> None:
    assert eras.text_of_header(b"=?base64?!!?=") is None
    assert eras.text_of_header(b"=?base64?/w==?=") is None


@pytest.mark.parametrize(("code", "status"), [(-32601, 404), (-32602, 400), (-32020, 400), (-32603, 200), (7, 200)])
def test_a_modern_error_has_its_http_status(code: int, status: int) -> None:
    assert eras.status_for(code) == status


@pytest.mark.parametrize(
    ("version", "era"),
    [("2024-11-05", eras.Era.LEGACY), ("2025-11-25", eras.Era.LEGACY), ("2026-07-28", eras.Era.MODERN)],
)
def test_a_version_belongs_to_an_era(version: str, era: eras.Era) -> None:
    assert eras.era_of(version) is era


def test_the_envelope_is_merged_and_leaves_everything_else_as_it_was() -> None:
    params = eras.modern_params(b'{"name":"x","arguments":{"n": 1.50},"_meta":{"traceparent":"t"}}', ME)
    assert b'"arguments":{"n": 1.50}' in params
    assert json.loads(params)["_meta"] == {
        "traceparent": "t",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "9"},
    }


@pytest.mark.parametrize(
    ("result", "modern"),
    [
        (b'{"supportedVersions":["2026-07-28"],"capabilities":{}}', True),
        (b'{"supportedVersions":["2027-01-01","2026-07-28"]}', True),
        (b'{"supportedVersions":["2025-11-25"],"capabilities":{}}', False),
        (b'{"capabilities":{}}', False),
        (b'{"supportedVersions":"2026-07-28"}', False),
        (b'{"supportedVersions":["2026-07-28"],"capabilities":[]}', True),
        (b"[]", False),
    ],
)
def test_only_a_positive_answer_to_discover_is_modern(result: bytes, modern: bool) -> None:
    assert (eras.read_discover(result) is not None) is modern


def test_a_modern_server_names_itself_in_meta() -> None:
    agreed = eras.read_discover(
        b'{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x": 1}},"instructions":"i",'
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name": "s"}}}'
    )
    assert agreed is not None
    assert bytes(agreed.server_info) == b'{"name": "s"}'
    assert bytes(agreed.capabilities) == b'{"tools":{"x": 1}}'
    assert agreed.instructions == "i"
    assert agreed.offers("tools")
    assert not agreed.offers("prompts")


def test_a_legacy_version_is_taken_and_an_unknown_one_refused() -> None:
    agreed = eras.read_initialize(b'{"protocolVersion":"2024-11-05","serverInfo":{"name":"s"}}')
    assert (agreed.era, agreed.protocol_version) == (eras.Era.LEGACY, "2024-11-05")
    with pytest.raises(UnsupportedVersion, match="2023-01-01"):
        eras.read_initialize(b'{"protocolVersion":"2023-01-01"}')
    with pytest.raises(NotMcp):
        eras.read_initialize(b'{"protocolVersion":1}')
