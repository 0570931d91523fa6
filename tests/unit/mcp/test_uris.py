"""URIs with the name of their server: which URIs are rewritten, and that all other bytes stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp import uris
from fairlead_mcp.apps import UserInterface, interface_of, remove_domains_in_result
from fairlead_mcp.uris import UriNames

NAMES = UriNames("time")


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ("ui://shared/app.html", "ui://time/shared/app.html"),
        ("ui://app", "ui://time/app"),
        ("ui:///app", "ui://time//app"),
        ("ui://other/x?y#z", "ui://time/other/x?y#z"),
        ("UI://App", "UI://time/App"),
        ("skill://pdf/SKILL.md", "skill://time/pdf/SKILL.md"),
        ("ui://{id}/view", "ui://time/{id}/view"),
        ("file:///etc/motd", "file:///etc/motd"),
        ("https://ui.example/ui://x", "https://ui.example/ui://x"),
        ("ui:opaque", "ui:opaque"),
    ],
)
def test_a_uri_gets_its_servers_part_where_its_scheme_means_something_there_alone(own: str, shown: str) -> None:
    assert NAMES.show(own) == shown
    assert UriNames("").show(own) == own
    if shown != own:
        assert uris.split(shown) == ("time", own)


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.sampled_from(["ui://", "skill://", "Ui://"]))
def test_every_uri_comes_back_as_it_was_and_never_as_another_servers(rest: str, scheme: str) -> None:
    assert uris.split(NAMES.show(scheme + rest)) == ("time", scheme + rest)


def test_a_result_is_renamed_in_its_places_and_stays_byte_for_byte_elsewhere() -> None:
    raw = (
        b'{"z": 1.50,"content":[{"type":"resource_link", "uri":"ui:\\/\\/a/b","x":{"uri":"ui://no"}},'
        b'{"type":"resource","resource":{"uri":"u\\u0069://c","text":"ui://text \\u00e9"}},{"type":"text","text":"ui://t"}],'
        b'"_meta":{"ui":{"resourceUri":"ui://d","visibility":["app"]},"ui\\/resourceUri":"ui://e","other":"ui://f"}}'
    )
    made = bytes(NAMES.show_in(raw, uris.TOOL_RESULT))
    assert json.loads(made) == {
        "z": 1.5,
        "content": [
            {"type": "resource_link", "uri": "ui://time/a/b", "x": {"uri": "ui://no"}},
            {"type": "resource", "resource": {"uri": "ui://time/c", "text": "ui://text é"}},
            {"type": "text", "text": "ui://t"},
        ],
        "_meta": {
            "ui": {"resourceUri": "ui://time/d", "visibility": ["app"]},
            "ui/resourceUri": "ui://time/e",
            "other": "ui://f",
        },
    }
    assert b"1.50" in made
    assert b"ui://text \\u00e9" in made


@pytest.mark.parametrize(
    "raw",
    [
        b'{"content":[{"type":"text","text":"see https://example.com"}], "isError" : false}',
        b'{"content":{"uri":"ui://x"}',
        b'{"content":[{"uri":7},{"uri":["ui://x"]},"ui://x"],"_meta":"ui://x"}',
        b'["ui://x"]',
        b"",
        b'{"_meta":{"ui":null}}',
    ],
)
def test_a_result_without_such_a_uri_is_the_same_object(raw: bytes) -> None:
    assert NAMES.show_in(raw, uris.TOOL_RESULT) is raw


@pytest.mark.parametrize(
    ("meta", "interface"),
    [
        (None, UserInterface()),
        ({"ui": {"resourceUri": "ui://a"}}, UserInterface(("ui://a",))),
        ({"ui/resourceUri": "ui://a"}, UserInterface(("ui://a",))),
        ({"openai/outputTemplate": "UI://a"}, UserInterface(("UI://a",))),
        ({"ui": {"resourceUri": "ui://a", "visibility": ["app"]}}, UserInterface(("ui://a",), for_model=False)),
        ({"ui": {"visibility": ["model"]}}, UserInterface(for_app=False)),
        ({"ui": {"resourceUri": "file:///etc/passwd"}}, UserInterface()),
        ({"ui": {"resourceUri": 3, "visibility": "app"}}, UserInterface()),
        ({"ui": "x"}, UserInterface()),
    ],
)
def test_a_definition_says_which_interface_its_tool_has(meta: object, interface: UserInterface) -> None:
    definition = {"name": "x", "inputSchema": {}, **({} if meta is None else {"_meta": meta})}
    assert interface_of(json.dumps(definition).encode()) == interface


def test_the_domain_of_a_servers_own_url_is_left_out_of_what_is_read() -> None:
    ui = {"csp": {"connectDomains": ["x"]}, "domain": "abc.example"}
    read = {"contents": [{"uri": "ui://a", "text": "<html>", "_meta": {"ui": ui, "k": 1}}, {"uri": "ui://b"}]}
    made = json.loads(bytes(remove_domains_in_result(json.dumps(read).encode())))
    assert made["contents"][0]["_meta"] == {"ui": {"csp": {"connectDomains": ["x"]}}, "k": 1}
    assert made["contents"][1] == {"uri": "ui://b"}
