"""Answers a client whose user has to open a page before the call can be made (elicitation by URL).

| client | answer |
|---|---|
| of 2026-07-28 with `elicitation.url` | `input_required`, with a `requestState` for the repetition of the call |
| of 2025-11-25 with `elicitation.url` | the error -32042 |
| other clients, and requests of methods without either form | a refusal whose text has the link |

The call at the server has ended. A question that a server asks during a call is answered in this way only if the client
has no stream for the question. Clients repeat a call as soon as the user has agreed to open the page. If the server
still requires the page, the gateway makes the call again and again for `hold_seconds`, and then asks the client again.
After MAX_DIALOGS questions in all, the client gets the refusal with the link.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.path.client_call import NOT_REPEATED, CallControl, ClientCall
from fairlead_gateway.calls.questions import round_trips
from fairlead_gateway.core.client_message import Rejection
from fairlead_mcp import jsonrpc, methods, url_elicitation
from fairlead_mcp.errors import RpcError
from fairlead_mcp.url_elicitation import URL_ELICITATION_REQUIRED, UrlElicitation
from fairlead_tools.refusal import CANCELLED, Refusal

_MAX_HOLD_SECONDS: Final = 45.0
_HOLD_SHARE: Final = 0.75
"""Maximum share of a call's timeout for which a repeated call waits."""
MAX_DIALOGS: Final = 3
"""Maximum number of times that a modern client is asked during one call. SDKs give up after about ten."""
DECLINED: Final = Refusal(CANCELLED, "The page that the call needs was not opened: the call was not made")

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


def answer_with_pages(control: CallControl, pages: Sequence[UrlElicitation]) -> bool:
    """Ask the client to have its user open the pages that the server requires. Returns False if the client does not
    support that, or was asked too often.
    """
    call = control.call
    if not opens_pages(call):
        return False
    if call.repeats != NOT_REPEATED and _repeat_later(control):
        return True
    if call.dialogs >= MAX_DIALOGS:
        return False
    ask_by_answer(control, pages)
    return True


def opens_pages(call: ClientCall) -> bool:
    """Whether the answer to the call may ask the user to open a page: only some methods have `input_required`."""
    request = call.request
    if request.modern and request.method not in methods.MCP_NAME_MEMBER:
        return False
    return url_elicitation.declares_urls(call.capabilities())


def ask_by_answer(control: CallControl, pages: Sequence[UrlElicitation], error_type: str = "") -> None:
    """Answer the call with pages to open, to a client for which `opens_pages` is True. `error_type` is the error code
    to record if the gateway asks, not the server.
    """
    call = control.call
    request, route = call.request, call.route
    if not request.modern:
        data = url_elicitation.required_data(pages, new_elicitation_id)
        rejection = Rejection(200, URL_ELICITATION_REQUIRED, url_elicitation.describe_pages(pages), request.id, data)
        control.answer_with_error(error_type or str(URL_ELICITATION_REQUIRED), rejection)
        return
    state = call.context.repeat_states.seal(
        call.identity, route.server.key, route.name, request, route.member, dialogs=call.dialogs + 1
    )
    input_required = {"resultType": "input_required", "inputRequests": url_elicitation.input_requests(pages)}
    control.answer_with_questions(jsonrpc.encode({**input_required, "requestState": state}), error_type)


def take_repeat(call: ClientCall) -> Refusal | None:
    """If a request repeats a call after `ask_by_answer`, restore the state of the first call. Returns a refusal if the
    user declined to open a page. Raises RpcError (-32602) if the state belongs to another call.
    """
    request, route = call.request, call.route
    if not request.modern:
        return None
    dialogs = call.context.repeat_states.verify(call.identity, route.server.key, route.name, request, route.member)
    if not dialogs:
        return None
    params = request.params
    responses = params.get("inputResponses")
    try:
        declined = responses is not None and not all(
            url_elicitation.is_accepted(response) for response in _decode_responses(responses).values()
        )
    except jsonrpc.UNREADABLE as error:
        raise RpcError(jsonrpc.INVALID_PARAMS, "params.inputResponses must be an object", None) from error
    call.repeats = 0
    call.dialogs = dialogs
    request.params = {name: raw for name, raw in params.items() if name not in ("inputResponses", "requestState")}
    return DECLINED if declined else None


def hold_seconds(call: ClientCall) -> float:
    """Seconds for which a repeated call waits for its user: a part of the call's time, and less than the minute after
    which many clients give up.
    """
    return min(_MAX_HOLD_SECONDS, call.route.timeout * _HOLD_SHARE)


def new_elicitation_id() -> str:
    """Make an `elicitationId`."""
    return str(uuid.uuid4())


def _repeat_later(control: CallControl) -> bool:
    """Wait a little, then make a repeated call again. Returns False if the call has waited for `hold_seconds`."""
    call = control.call
    wait = round_trips.wait_before(call.repeats)
    waited = call.context.clock() - call.attempts.started
    if waited + wait > hold_seconds(call):
        return False
    call.repeats += 1
    control.continue_after(asyncio.sleep(wait), lambda _: control.send(), "wait for a person")
    return True
