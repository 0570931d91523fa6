"""Client capabilities: which ones a discovery declares, how it declines requests, and whether a client has those that a
tool requires."""

from __future__ import annotations

import json

import pytest

from fairlead_mcp import capabilities, jsonrpc


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("roots/list", {"result": {"roots": []}}),
        ("elicitation/create", {"result": {"action": "decline"}}),
        ("ping", {"result": {}}),
    ],
)
def test_a_discovery_declines_what_is_asked_of_it(method: str, answer: dict[str, object]) -> None:
    sent: list[bytes] = []
    capabilities.decline(jsonrpc.decode_message(jsonrpc.request(b"7", method)), sent.append)
    assert [json.loads(body) for body in sent] == [{"jsonrpc": "2.0", "id": 7, **answer}]


def test_a_discovery_rejects_sampling_and_what_nobody_knows_by_an_error() -> None:
    sent: list[bytes] = []
    for method in ("sampling/createMessage", "tasks/get"):
        capabilities.decline(jsonrpc.decode_message(jsonrpc.request(b"7", method)), sent.append)
    assert [json.loads(body)["error"]["code"] for body in sent] == [-1, -32601]


def test_every_capability_is_declared_with_its_members() -> None:
    assert all(capabilities.declares(capabilities.ALL, name) for name, _ in capabilities.SINGLE)
    assert all(capabilities.declares(alone, name) for name, alone in capabilities.SINGLE)


@pytest.mark.parametrize(
    ("declared", "name", "has"),
    [
        (None, "roots", False),
        (b"{}", "roots", False),
        (b'{"roots":{}}', "roots", True),
        (b'{"elicitation":{}}', "elicitation", True),
        (b'{"elicitation":{}}', "elicitation.url", False),
        (b'{"elicitation":{"url":{}}}', "elicitation.url", True),
        (b'{"elicitation":7}', "elicitation.url", False),
        (b"no JSON", "roots", False),
    ],
)
def test_a_client_has_what_it_declared_and_nothing_else(declared: bytes | None, name: str, *, has: bool) -> None:
    assert capabilities.declares(declared, name) is has


def test_an_error_says_which_capabilities_are_required() -> None:
    data = capabilities.missing_capability_data(["roots", "elicitation", "elicitation.url"])
    assert json.loads(data) == {"requiredCapabilities": {"roots": {}, "elicitation": {"form": {}, "url": {}}}}
    assert capabilities.names_in(data) == ("elicitation", "roots")
    assert capabilities.names_in(None) == capabilities.names_in(b"[]") == ()
    assert capabilities.missing_capability_message("x", ["roots", "sampling"]).startswith(
        "x needs the client capabilities roots and"
    )


def test_a_question_to_a_client_without_the_capability_is_answered_with_its_name() -> None:
    question = jsonrpc.decode_message(jsonrpc.request(b"7", "sampling/createMessage"))
    assert "capability sampling" in json.loads(jsonrpc.reply_to_server(question))["error"]["message"]
