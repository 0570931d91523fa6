"""Catalog documents: raw definitions, hashes, and detection of changes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from fairlead_api.documents import codec
from fairlead_api.documents.catalog import (
    Catalog,
    ChildEndpoint,
    Credential,
    HttpEndpoint,
    ToolEntry,
    definition_hash,
    list_hash,
    same_content,
    search_hash,
)
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState


def entry(name: str, definition: bytes) -> ToolEntry:
    return ToolEntry(
        name=name,
        definition=Raw(definition),
        hash=definition_hash(definition),
        search_hash=search_hash(name, definition),
    )


def catalog(*tools: ToolEntry, updated_at: str = "2026-01-01T00:00:00Z") -> Catalog:
    return Catalog(
        namespace="default",
        name="time",
        uid="u",
        generation=1,
        prefix="time",
        endpoint=HttpEndpoint(url="http://time.default.svc:8080/mcp"),
        protocol_version="2026-07-28",
        tools=tools,
        updated_at=updated_at,
    )


ODD = b'{"x-unknown" : [1.0, 1e3, "\\u00e9\xc3\xa9"],  "name":"add","inputSchema":{"b":1,"a":2}}'


def test_a_definition_comes_out_byte_for_byte_unknown_members_and_spacing_included() -> None:
    read = codec.decode(codec.encode(catalog(entry("add", ODD))))
    assert isinstance(read, Catalog)
    assert bytes(read.tools[0].definition) == ODD


def test_every_kind_of_document_survives_a_round_trip() -> None:
    documents: list[codec.Document] = [
        catalog(entry("add", ODD)),
        Rules(tiers=(Tier(name="fast", max_latency_ms=500, default=True),)),
        State(
            servers=(
                ServerState(
                    namespace="default",
                    name="time",
                    tools=(
                        ToolState(name="add", quantiles=Quantiles(p50_ms=1, p90_ms=2, p95_ms=3, p99_ms=4, samples=9)),
                    ),
                ),
            )
        ),
    ]
    for document in documents:
        assert codec.decode(codec.encode(document)) == document


def test_kind_and_version_are_written_although_they_are_defaults() -> None:
    header = msgspec.json.decode(codec.encode(Rules()))
    assert header["kind"] == "rules"
    assert header["version"] == 1


def test_unknown_members_are_ignored_so_that_an_old_reader_reads_a_new_writer() -> None:
    plain = msgspec.json.decode(codec.encode(catalog()))
    plain["invented"] = {"later": True}
    plain["endpoint"]["invented"] = 1
    assert codec.decode(msgspec.json.encode(plain)) == catalog()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a Fairlead document"),
        (b"[]", "not a Fairlead document"),
        (b'{"kind":"catalog"}', "version"),
        (b'{"kind":"sonnet","version":1}', "'sonnet' is not one of catalog, state, rules"),
        (b'{"kind":"rules","version":2}', "upgrade"),
        (b'{"kind":"catalog","version":1}', "catalog: "),
    ],
)
def test_an_unreadable_document_is_refused_with_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(codec.UnreadableDocument, match=says):
        codec.decode(data)


def large_catalog() -> Catalog:
    """A catalog that is decoded tool by tool."""
    long = b'{"name":"add","description":"%b"}' % (b"x" * (codec.STEPPED_BYTES // 2))
    return catalog(entry("add", ODD), entry("first", long), entry("second", long))


def test_a_large_catalog_is_decoded_like_any_other() -> None:
    assert codec.decode(codec.encode(large_catalog())) == large_catalog()


def test_a_fault_in_a_tool_of_a_large_catalog_is_named_with_its_place() -> None:
    data = codec.encode(large_catalog()).replace(b'"name":"second"', b'"name":2')
    with pytest.raises(codec.UnreadableDocument, match=r"got `int` - at `\$\.tools\[2\]\.name`"):
        codec.decode(data)


def test_any_byte_of_a_definition_changes_its_hash_but_only_searched_ones_the_search_hash() -> None:
    spaced = ODD.replace(b"x-unknown", b"y-unknown")
    assert definition_hash(ODD) != definition_hash(spaced)
    assert search_hash("add", ODD) == search_hash("add", spaced)
    assert search_hash("add", ODD) != search_hash("add", ODD.replace(b'"a":2', b'"a":3'))
    assert search_hash("add", ODD) != search_hash("add", ODD, tags=("math",))
    assert search_hash("add", ODD, tags=("math",)) != search_hash("add", ODD, categories=("math",))


def test_the_list_hash_does_not_depend_on_the_order_in_which_a_server_lists() -> None:
    first = entry("a", b'{"name":"a"}')
    second = entry("b", b'{"name":"b"}')
    assert list_hash(catalog(first, second)) == list_hash(catalog(second, first))
    assert list_hash(catalog(first)) != list_hash(catalog(first, second))


def test_the_time_of_making_is_not_a_change() -> None:
    assert same_content(catalog(updated_at="a"), catalog(updated_at="b"))
    assert not same_content(catalog(), catalog(entry("a", b"{}")))


def test_a_child_endpoint_is_told_from_an_http_one() -> None:
    child = msgspec.structs.replace(catalog(), endpoint=ChildEndpoint(command="mcp-server-time", args=("--utc",)))
    read = codec.decode(codec.encode(child))
    assert isinstance(read, Catalog)
    assert read.endpoint == ChildEndpoint(command="mcp-server-time", args=("--utc",))


def test_a_credential_does_not_show_its_values_when_printed() -> None:
    shown = repr(Credential(headers={"Authorization": "Bearer hunter2"}, env={"TOKEN": "hunter2"}))
    assert "Authorization" in shown
    assert "hunter2" not in shown


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_search_hash_tells_apart_how_text_is_split(first: list[bytes], second: list[bytes]) -> None:
    texts_one, texts_two = (tuple(chunk.hex() for chunk in chunks) for chunks in (first, second))
    same = search_hash("t", b"{}", tags=texts_one) == search_hash("t", b"{}", tags=texts_two)
    assert same == (texts_one == texts_two)
