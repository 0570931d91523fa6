"""Bridge for `input_required` results of a modern server, which a legacy client does not know.

The client gets the questions of the result as JSON-RPC requests on the stream of its call. The gateway sends the
answers to the server in another request, with the server's `requestState` (MCP 2026-07-28, "Multi Round-Trip Requests",
SEP-2322).

A client that agreed to open a page (elicitation by URL) is not asked about it again: a server that repeats the question
still waits for the user, so the gateway waits before it sends the next request.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.translation.translate import INPUT_REQUIRED
from fairlead_mcp import capabilities, jsonrpc, url_elicitation
from fairlead_mcp.content import AnyObject
from fairlead_mcp.errors import NotMcp, RpcError, Timeout
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import Message
from fairlead_mcp.url_elicitation import UrlElicitation

MAX_ROUNDS: Final = 16
"""Limit on the `input_required` results of one call."""
MAX_QUESTIONS: Final = 16
"""Limit on the questions of one `input_required` result."""
LONGEST_WAIT: Final = 5.0
"""Maximum seconds between two requests for a page that the user has not finished yet."""
_ACCEPTED: Final = Raw(b'{"action":"accept"}')


class Question(msgspec.Struct):
    """A server's request to the client, within an `input_required` result."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequired(msgspec.Struct):
    """Result that asks the client for input before the call continues (SEP-2322)."""

    result_type: str = msgspec.field(name="resultType", default="")
    questions: dict[str, Question] = msgspec.field(name="inputRequests", default_factory=dict)
    state: Raw | UnsetType = msgspec.field(name="requestState", default=UNSET)


class OpenedPages:
    """Pages that the client's user agreed to open during one call."""

    def __init__(self) -> None:
        self.urls: set[str] = set()
        self.waits = 0
        """Number of waits so far."""

    def next_wait(self) -> float:
        """Seconds to wait before the next request to the server."""
        self.waits += 1
        return wait_before(self.waits - 1)


def wait_before(repeats: int) -> float:
    """Seconds to wait before a request is sent again because the user has not finished a page: 1, 2, 4, then
    LONGEST_WAIT.
    """
    return min(2.0 ** min(repeats, 8), LONGEST_WAIT)


class _ResultKind(msgspec.Struct):
    result_type: Any = msgspec.field(name="resultType", default=None)


class _StrictQuestion(msgspec.Struct):
    method: str
    params: AnyObject | UnsetType = UNSET


class _StrictResult(msgspec.Struct):
    questions: dict[str, _StrictQuestion] | UnsetType = msgspec.field(name="inputRequests", default=UNSET)
    state: str | UnsetType = msgspec.field(name="requestState", default=UNSET)


_decode = msgspec.json.Decoder(InputRequired).decode
_decode_type = msgspec.json.Decoder(_ResultKind).decode
_decode_strictly = msgspec.json.Decoder(_StrictResult).decode
_INVALID: Final = "the server's input_required result violates the MCP schema"


async def ask_client(
    relay: MessageRelay, input_required: InputRequired, seconds: float, opened_pages: OpenedPages | None = None
) -> RawObject:
    """Ask the client all questions of a result, and return the params to add to the next request: answers and state.
    Pages in `opened_pages` are not asked about again.

    Raises RpcError if the client refuses, or lacks the required capability or stream (-32042 if it lacks these only for
    pages). Raises Timeout if an answer is missing after `seconds`.
    """
    opened_pages = OpenedPages() if opened_pages is None else opened_pages
    questions = input_required.questions.values()
    pages = pages_of(input_required)
    if pages and not relay.opens_pages:
        raise url_elicitation.required_error(pages)
    only_opened_pages = (
        bool(questions) and len(pages) == len(questions) and all(page.url in opened_pages.urls for page in pages)
    )
    try:
        async with asyncio.timeout(max(seconds, 0)):
            if only_opened_pages:
                await asyncio.sleep(opened_pages.next_wait())
            responses = await asyncio.gather(*(_ask(relay, question, pages, opened_pages) for question in questions))
    except TimeoutError as error:
        raise Timeout("the client did not answer the tool's questions in time", sent=True) from error
    members: RawObject = {
        "inputResponses": Raw(jsonrpc.encode(dict(zip(input_required.questions, responses, strict=True))))
    }
    if input_required.state is not UNSET:
        members["requestState"] = input_required.state
    return members


def pages_of(input_required: InputRequired) -> list[UrlElicitation]:
    """Pages that the questions of a result ask to open. Raises NotMcp for a page without a valid URL."""
    pages = []
    for question in input_required.questions.values():
        elicitation = url_elicitation.read_request(question.method, question.params)
        if elicitation is not None:
            pages.append(elicitation)
        elif url_elicitation.is_url_elicitation(question.method, question.params):
            raise NotMcp("the tool asks the user to open a page (elicitation by URL), but its URL is not valid")
    return pages


def check_pages(input_required: bytes | Raw, features: bytes | None) -> None:
    """Check the pages that an `input_required` result asks a modern client to open.

    Raises RpcError (-32042) if the client has not declared elicitation by URL, and NotMcp for a page without a valid
    URL.
    """
    if b"url" not in bytes(input_required) and b"\\" not in bytes(input_required):
        return  # the word does not occur, not even in escaped form
    pages = pages_of(_decode(input_required))
    if pages and not url_elicitation.declares_urls(features):
        raise url_elicitation.required_error(pages)


def read_questions(raw: Raw) -> InputRequired | None:
    """Parse an `input_required` result; None for any other result. Raises NotMcp if the result is malformed."""
    if INPUT_REQUIRED.encode() not in bytes(raw):
        return None
    try:
        if _decode_type(raw).result_type != INPUT_REQUIRED:
            return None
        input_required = _decode(well_formed(raw))
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(_INVALID) from error
    if len(input_required.questions) > MAX_QUESTIONS:
        raise NotMcp(f"the tool asks more than {MAX_QUESTIONS} questions at once")
    return input_required


def well_formed(raw: bytes | Raw) -> bytes | Raw:
    """An `input_required` result that matches the schema of `InputRequiredResult` (MCP 2026-07-28).

    If the result does not, members that are null or empty lists are removed. Raises NotMcp if that does not suffice.
    """
    try:
        _decode_strictly(raw)
    except msgspec.ValidationError:
        pass
    else:
        return raw
    members = jsonrpc.decode_object(raw)
    cleaned = jsonrpc.encode({name: value for name, value in members.items() if bytes(value) not in (b"null", b"[]")})
    try:
        _decode_strictly(cleaned)
    except msgspec.ValidationError as error:
        raise NotMcp(_INVALID) from error
    return cleaned


async def _ask(relay: MessageRelay, question: Question, pages: list[UrlElicitation], opened_pages: OpenedPages) -> Raw:
    elicitation = url_elicitation.read_request(question.method, question.params)
    if elicitation is not None and elicitation.url in opened_pages.urls:
        return _ACCEPTED
    response_body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(body: bytes) -> None:
        if not response_body.done():
            response_body.set_result(body)

    was_sent = relay.on_request(Message(question.method, Raw(b"0"), question.params), answer)
    if not was_sent and elicitation is not None:
        raise url_elicitation.required_error(pages)
    response = jsonrpc.read_response(await response_body)
    if response.error is not None:
        if response.error.code == jsonrpc.METHOD_NOT_FOUND:
            raise capabilities.missing_capability_error(question.method, response.error.message)
        raise RpcError(response.error.code, f"{question.method}: {response.error.message}", None)
    assert isinstance(response.result, Raw)
    if elicitation is not None and url_elicitation.is_accepted(response.result):
        opened_pages.urls.add(elicitation.url)
    return response.result
