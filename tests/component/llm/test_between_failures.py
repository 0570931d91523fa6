"""SDKs get the failures of providers of other families like those of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed (fairlead[dev])")
errors = pytest.importorskip("google.genai.errors", reason="Google's client is not installed (fairlead[dev])")
clients = pytest.importorskip("pairclients")
PAIRS = clients.PAIRS
Wire = clients.Wire
ask = clients.ask
http = clients.http
wire_format = clients.wire_format

STATUSES = {"invalid": 400, "key": 401, "denied": 403, "missing": 404, "rate": 429, "overloaded": 503, "broken": 500}


def _status(name: str, provider: str) -> int:
    return 529 if name == "overloaded" and provider == "anthropic" else STATUSES[name]


def _failure(front: str, name: str) -> tuple[Any, int, object]:
    """Exception, status and error code that an SDK reports for a failure."""
    if front in ("chat", "responses"):
        return {
            "invalid": (openai.BadRequestError, 400, None),
            "key": (openai.AuthenticationError, 401, "invalid_api_key"),
            "denied": (openai.PermissionDeniedError, 403, None),
            "missing": (openai.NotFoundError, 404, "model_not_found"),
            "rate": (openai.RateLimitError, 429, "rate_limit_exceeded"),
            "overloaded": (openai.InternalServerError, 503, "overloaded"),
            "broken": (openai.InternalServerError, 500, None),
        }[name]
    if front == "anthropic":
        return {
            "invalid": (anthropic.BadRequestError, 400, "invalid_request_error"),
            "key": (anthropic.AuthenticationError, 401, "authentication_error"),
            "denied": (anthropic.PermissionDeniedError, 403, "permission_error"),
            "missing": (anthropic.NotFoundError, 404, "not_found_error"),
            "rate": (anthropic.RateLimitError, 429, "rate_limit_error"),
            "overloaded": (anthropic.APIStatusError, 529, "overloaded_error"),
            "broken": (anthropic.InternalServerError, 500, "api_error"),
        }[name]
    return {
        "invalid": (errors.ClientError, 400, "INVALID_ARGUMENT"),
        "key": (errors.ClientError, 401, "UNAUTHENTICATED"),
        "denied": (errors.ClientError, 403, "PERMISSION_DENIED"),
        "missing": (errors.ClientError, 404, "NOT_FOUND"),
        "rate": (errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        "overloaded": (errors.ServerError, 503, "UNAVAILABLE"),
        "broken": (errors.ServerError, 500, "INTERNAL"),
    }[name]


@pytest.mark.diagonal
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_a_refusal_has_the_format_of_the_clients_family(front: str, provider: str, name: str, stream: bool) -> None:
    wanted, status, word = _failure(front, name)
    turn = ScriptedTurn("the provider's words", status=_status(name, provider))
    with pytest.raises(wanted) as raised:
        ask(front, provider, turn, stream=stream)
    error: Any = raised.value
    if front == "gemini":
        assert (error.code, error.status) == (status, word)
    else:
        told = error.code if front != "anthropic" else error.body["error"]["type"]
        assert (error.status_code, told) == (status, word)
    assert ("the provider's words" in str(error)) == (name != "key")


@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_a_cut_stream_ends_with_an_error(front: str, provider: str) -> None:
    broken: Any = (openai.APIError, anthropic.APIError, errors.APIError)
    with pytest.raises(broken):
        ask(front, provider, ScriptedTurn("Half of it", cut=True), stream=True)
    wire = Wire(front, provider, [ScriptedTurn("Half of it", cut=True)])
    body = _raw(wire)
    assert body.count(b"error") >= 1
    for end in (b"[DONE]", b"message_stop", b"response.completed", b"finishReason"):
        assert end not in body


@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_an_error_of_the_provider_in_its_stream_is_the_last_event(front: str, provider: str) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "code": 503, "message": "too much"}}
    data = json.dumps(error if provider in ("anthropic", "responses") else {"error": error["error"]})
    if provider == "bedrock":
        data = json.dumps({"serviceUnavailableException": {"message": "too much"}})
    wire = Wire(front, provider, [ScriptedTurn(events=[data])])
    last = _raw(wire).rstrip().rpartition(b"data: ")[2]
    told = json.loads(last)["error"]
    assert told["message"] == "too much"
    named = {"chat": "code", "responses": "code", "anthropic": "type", "gemini": "status"}[front]
    words = {"code": "overloaded", "type": "overloaded_error", "status": "UNAVAILABLE"}
    assert told[named] == words[named]


def _raw(wire: Any) -> bytes:
    """The bytes of a stream that a client with the wire's format requests."""
    hi = [{"role": "user", "content": "H"}]
    bodies = {
        "chat": ("/v1/chat/completions", {"model": "m", "stream": True, "messages": hi}),
        "responses": ("/v1/responses", {"model": "m", "stream": True, "input": "H"}),
        "anthropic": ("/v1/messages", {"model": "m", "stream": True, "max_tokens": 9, "messages": hi}),
        "gemini": ("/v1beta/models/m:streamGenerateContent", {"contents": [{"parts": [{"text": "H"}]}]}),
    }
    path, body = bodies[wire.front]
    content: bytes = http(wire).post(f"http://gateway{path}", json=body).content
    return content


@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("front", ["chat", "responses"])  # clients of other families accept only objects
def test_arguments_that_are_not_json_reach_the_client_as_the_model_wrote_them(front: str, provider: str) -> None:
    turn = ScriptedTurn("", [ScriptedCall("theirs", '{"q": ')])
    answer, _ = ask(front, provider, turn, stream=True)
    assert answer.calls == [("theirs", '{"q": ')]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("front", [front for front, provider in PAIRS if provider == "responses"])
def test_a_response_that_failed_is_an_error(front: str, stream: bool) -> None:
    broken: Any = (openai.APIError, anthropic.APIError, errors.APIError)
    with pytest.raises(broken):
        ask(front, "responses", ScriptedTurn("it broke", finish_reason="failed"), stream=stream)


@pytest.mark.diagonal
@pytest.mark.parametrize("cuts", [(1,), (2, 3, 5), (7, 1, 64)])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_a_stream_may_be_cut_into_pieces_anywhere(front: str, provider: str, cuts: tuple[int, ...]) -> None:
    turn = ScriptedTurn("Grüße, 世界 🪢.", [ScriptedCall("theirs", {"q": 1})])
    answer, _ = ask(front, provider, turn, stream=True, cuts=cuts)
    assert (answer.text, answer.calls) == ("Grüße, 世界 🪢.", [("theirs", {"q": 1})])


def test_the_same_object_is_the_pair_of_two_formats() -> None:
    assert wire_format("chat", "anthropic") is wire_format("chat", "anthropic")
    assert wire_format("chat", "anthropic") is not wire_format("anthropic", "chat")
