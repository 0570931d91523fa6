"""Asks the user of a call to sign in to its server, and makes the call after the sign-in.

| client | how the user is asked |
|---|---|
| of 2026-07-28 with `elicitation.url` | `input_required`, up to MAX_DIALOGS times |
| of 2025-11-25 with `elicitation.url` and a stream | a question on the stream; the call is made after the sign-in |
| of 2025-11-25 with `elicitation.url`, but without a stream | the error -32042 |
| other clients | a refusal whose text has the link |

Each replica asks a client at most one question per server at a time; the question is open until the client is gone.
Meanwhile other calls of the client wait for the sign-in, up to SILENT_SECONDS. If the user does not sign in in time,
the call gets the refusal with the link. Each call waits at most once.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Coroutine
from typing import Any, Final

from msgspec import Raw

from fairlead_gateway.calls.path.client_call import NOT_REPEATED, CallControl, ClientCall
from fairlead_gateway.calls.path.page_answers import (
    DECLINED,
    MAX_DIALOGS,
    answer_with_pages,
    ask_by_answer,
    hold_seconds,
    new_elicitation_id,
    opens_pages,
)
from fairlead_gateway.calls.questions.sign_in_questions import Key
from fairlead_gateway.recent.phases import CLIENT
from fairlead_mcp import eras, jsonrpc, progress_token, url_elicitation
from fairlead_mcp.escaping import escape
from fairlead_mcp.messages import Message
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.url_elicitation import UrlElicitation
from fairlead_tools import refusals
from fairlead_tools.refusal import SIGN_IN_REQUIRED

PROGRESS_SECONDS: Final = 5.0
"""Seconds between two progress notifications of a call that waits."""
SILENT_SECONDS: Final = 20.0
"""Maximum seconds for which a call waits silently while another call asks the same client."""
QUESTION_SECONDS: Final = 60.0
"""Seconds after which a question in an answer no longer counts as open if the client shows no activity: it may be gone.
"""
_PROGRESS_STEP: Final = 0.001
"""Progress of one notification: small, because progress must increase and the server's own progress comes later."""
ENDED: Final = "ended"
"""The sign-in has ended: the call shows whether it succeeded."""
LATE: Final = "late"
"""The sign-in has not ended in time."""
NO_STREAM: Final = "no stream"
DECLINED_BY_PERSON: Final = "declined"


def _question_key(call: ClientCall) -> Key:
    """Key of the question to the call's user in the call's client."""
    binding, identity = call.route.binding, call.identity
    person = identity.person if binding.credentials is None else binding.credentials.person(identity)
    return person, call.route.server.key, _client_id(call)


def _client_id(call: ClientCall) -> bytes:
    """Identifies the client: the session of a legacy client, or a digest of `clientInfo` for a modern client, which has
    no sessions.
    """
    if not call.request.modern:
        return call.own_session or b""
    try:
        info = jsonrpc.decode_object(call.request.params["_meta"])[eras.META_CLIENT_INFO]
    except (*jsonrpc.UNREADABLE, KeyError):
        return b""
    return hashlib.blake2b(info, digest_size=16).digest()


def ask_person(control: CallControl, error: Exception) -> bool:
    """Ask the call's user to open the pages in an error, if it has any. Returns False if the client cannot be asked; it
    then gets the text with the links.
    """
    if isinstance(error, GrantFailed):
        return error.sign_in_url != "" and _ask_to_sign_in(control, error)
    pages = url_elicitation.pages_in_error(error)
    return bool(pages) and answer_with_pages(control, pages)


def close_question(call: ClientCall) -> None:
    """Count the question to the call's user as answered."""
    call.context.sign_in_questions.close(_question_key(call))


def _ask_to_sign_in(control: CallControl, error: GrantFailed) -> bool:
    call = control.call
    if not opens_pages(call):
        return False
    questions, key, page = call.context.sign_in_questions, _question_key(call), refusals.sign_in_page(error)
    modern, repeated = call.request.modern, call.repeats != NOT_REPEATED
    if call.has_awaited_sign_in:
        if not repeated:
            return False
        if call.dialogs >= MAX_DIALOGS:
            questions.close(key)
            return False
        questions.reopen(key, page.url, QUESTION_SECONDS)
        ask_by_answer(control, [page], SIGN_IN_REQUIRED)
    elif repeated:
        seconds = hold_seconds(call)
        questions.reopen(key, page.url, seconds + QUESTION_SECONDS)
        _wait(control, key, error, _wait_in_repeat(call, key, seconds))
    elif modern:
        if questions.open(key, page.url, QUESTION_SECONDS):
            ask_by_answer(control, [page], SIGN_IN_REQUIRED)
        else:
            _wait(control, key, error, _wait_silently(call))
    else:
        seconds = _max_wait(call)
        if questions.open(key, page.url, seconds, lambda: call.done or call.exchange.detached):
            _wait(control, key, error, _ask_and_wait(control, key, page, seconds))
        else:
            _wait(control, key, error, _wait_silently(call))
    return True


def _wait(control: CallControl, key: Key, error: GrantFailed, work: Coroutine[Any, Any, str]) -> None:
    """Run `work`, which waits for the sign-in that an error asks for. Then make the call, or fail it with the error if
    the user did not sign in.
    """
    call, page = control.call, refusals.sign_in_page(error)

    def resume(outcome: str) -> None:
        if outcome == NO_STREAM:
            call.context.sign_in_questions.reopen(key, page.url, QUESTION_SECONDS)
            ask_by_answer(control, [page], SIGN_IN_REQUIRED)
            return
        if outcome == DECLINED_BY_PERSON:
            control.refuse(DECLINED)
            return
        call.attempts.restart_timeout()
        if outcome == LATE or not _seconds_left(call):
            call.attempts.reject(error)
        else:
            control.send()

    call.has_awaited_sign_in = True
    call.attempts.enter_phase(CLIENT)
    control.continue_after(work, resume, "wait for a sign-in")


async def _wait_for_sign_in(call: ClientCall, seconds: float, answer: asyncio.Future[bytes] | None = None) -> str:
    """Wait until the sign-in ends, at most `seconds`, or until `answer` says that the user declined. Returns ENDED,
    LATE or DECLINED_BY_PERSON.
    """
    server = call.route.server.key
    work = call.context.sign_in_questions.waits.wait(call.identity, server, seconds)
    sign_in = asyncio.get_running_loop().create_task(work, name="wait for a sign-in")
    pending: set[asyncio.Future[Any]] = {sign_in} if answer is None else {sign_in, answer}
    try:
        for step in itertools.count(1):
            _report(call, step, str(server))
            done, _ = await asyncio.wait(pending, timeout=PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if sign_in in done:
                return ENDED if sign_in.result() else LATE
            if answer is not None and answer in done:
                if not _is_accepted(answer.result()):
                    return DECLINED_BY_PERSON
                pending.discard(answer)
    finally:
        sign_in.cancel()
    raise AssertionError("steps have no end")


async def _wait_silently(call: ClientCall) -> str:
    """Wait like `_wait_for_sign_in`, without a question, because another call already asks the client."""
    return await _wait_for_sign_in(call, min(SILENT_SECONDS, _seconds_left(call)))


async def _wait_in_repeat(call: ClientCall, key: Key, seconds: float) -> str:
    """Wait like `_wait_for_sign_in`, in a repeated call. If the call is cancelled, its client is gone."""
    try:
        return await _wait_for_sign_in(call, seconds)
    except asyncio.CancelledError:
        call.context.sign_in_questions.close(key)
        raise


async def _ask_and_wait(control: CallControl, key: Key, page: UrlElicitation, seconds: float) -> str:
    """Wait like `_wait_for_sign_in`, and ask a legacy client on the stream of the call. Returns NO_STREAM if it has no
    stream.
    """
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    call, relay, ident = control.call, control.open_relay(), new_elicitation_id()

    def take_answer(body: bytes) -> None:
        if not answer.done():
            answer.set_result(body)

    params = Raw(page.legacy_params(lambda: ident))
    if not relay.on_request(Message(url_elicitation.METHOD, Raw(b"0"), params), take_answer):
        return NO_STREAM
    try:
        outcome = await _wait_for_sign_in(call, seconds, answer)
    finally:
        call.context.sign_in_questions.close(key)
    if outcome == ENDED:
        relay.complete_elicitation(ident)
    return outcome


def _is_accepted(body: bytes) -> bool:
    """Whether a client's response to `elicitation/create` says that the user agreed."""
    response = jsonrpc.read_response(body)
    return response.error is None and isinstance(response.result, Raw) and url_elicitation.is_accepted(response.result)


def _report(call: ClientCall, step: int, server: str) -> None:
    """Send a progress notification if the client asked for them."""
    token = call.request.token
    if token is None:
        return
    params = {
        progress_token.NAME: Raw(token.value),
        "progress": step * _PROGRESS_STEP,
        "message": f"Waiting for a sign-in at the server {server}",
    }
    body = jsonrpc.notification("notifications/progress", jsonrpc.encode(params))
    call.exchange.notify(bytes(escape(body)) if call.route.must_escape else body)


def _seconds_left(call: ClientCall) -> float:
    return max(call.attempts.deadline - call.context.clock(), 0.0)


def _max_wait(call: ClientCall) -> float:
    """Seconds until the latest deadline that the call can have."""
    route = call.route
    return max(call.attempts.started + max(route.timeout, route.max_timeout) - call.context.clock(), 0.0)
