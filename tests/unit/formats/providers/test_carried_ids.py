"""Call ids inside signatures of thoughts, which clients of Gemini's API send back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairlead_formats.providers.gemini.carried_ids import read_carried_id, restore_ids, sign_with_id
from fairlead_formats.wire.call_ids import new_id

A = new_id()
B = new_id()


def call_part(name: str, ident: str, signature: str = "", given: str = "") -> dict[str, Any]:
    own = {"id": given} if given else {}
    return {"functionCall": {**own, "name": name}, "thoughtSignature": sign_with_id(ident, signature)}


def response_part(name: str, given: str = "") -> dict[str, Any]:
    return {"functionResponse": {**({"id": given} if given else {}), "name": name, "response": {}}}


def restored_parts(*contents: tuple[str, list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Parts of the contents after `restore_ids`."""
    sent = {"contents": [{"role": role, "parts": parts} for role, parts in contents]}
    made = json.loads(restore_ids(json.dumps(sent).encode()))
    return [content["parts"] for content in made["contents"]]


def response_ids(parts: list[dict[str, Any]]) -> list[str | None]:
    return [part["functionResponse"].get("id") for part in parts]


@pytest.mark.parametrize("signature", ["", "c2ln", "skip_thought_signature_validator", "a-b_c+/=="])
def test_a_signature_carries_an_id_and_the_providers_own(signature: str) -> None:
    carried = sign_with_id(A, signature)
    assert read_carried_id(carried) == (A, signature)
    urlsafe = base64.urlsafe_b64encode(base64.b64decode(carried)).decode()
    assert read_carried_id(urlsafe) == read_carried_id(urlsafe.rstrip("=")) == (A, signature), (
        "as clients write it again"
    )
    (parts,) = restored_parts(("model", [call_part("f", A, signature)]))
    own = {"thoughtSignature": signature} if signature else {}
    assert parts == [{"functionCall": {"id": A, "name": "f"}, **own}]


def test_responses_get_the_ids_of_calls_of_their_name_in_their_order() -> None:
    calls = [call_part("f", A), call_part("g", B)]
    _, responses = restored_parts(
        ("model", calls), ("user", [response_part("g"), response_part("f"), response_part("f")])
    )
    assert response_ids(responses) == [B, A, None]


def test_responses_under_ids_of_a_clients_own_get_the_ids_of_their_calls() -> None:
    calls = [call_part("f", A, given="mine-1"), call_part("f", B, given="mine-2")]
    _, responses = restored_parts(
        ("model", calls), ("user", [response_part("f", "mine-2"), response_part("f", "mine-1")])
    )
    assert response_ids(responses) == [B, A]


def test_a_response_is_none_to_a_call_of_an_earlier_turn() -> None:
    earlier = ("model", [call_part("f", A)])
    model = ("model", [call_part("f", B)])
    *_, responses = restored_parts(earlier, ("user", [{"text": "No."}]), model, ("user", [response_part("f")]))
    assert response_ids(responses) == [B]


@pytest.mark.parametrize(
    "signature",
    [
        "c2ln",
        sign_with_id("call_0", "c2ln"),
        sign_with_id(A, "")[:14],
        sign_with_id(A, "") + "!",
        base64.b64encode(b"fairlead:\xff").decode(),
    ],
    ids=["the provider's", "another id", "cut", "not base64", "not UTF-8"],
)
def test_a_signature_that_carries_no_id_made_here_stays_as_it_is(signature: str) -> None:
    part = {"functionCall": {"name": "f"}, "thoughtSignature": signature}
    assert restored_parts(("model", [part])) == [[part]]


@pytest.mark.parametrize("body", ["[", '{"contents":1,', '{"contents":["ZmFpcmxlYWQ6"]}', '{"ZmFpcmxlYWQ6":1}', "null"])
def test_a_body_that_cannot_be_read_stays_as_it_is(body: str) -> None:
    for sent in (body.encode(), body.encode() + b"ZmFpcmxlYWQ6"):
        assert restore_ids(sent) == sent
