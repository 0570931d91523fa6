"""Store of turns of which the client receives only a part, and their restoration in the client's next request.

Such turns call tools of both the gateway and the client, or end with calls of the client's tools after several rounds.
Other turns have signed reasoning that an API accepts only in its original messages. The client receives the calls of
its own tools and sends their results. The rest of the turn is in the store in which the gateway keeps tool results:
bound to the principal, for a limited time, in Redis if replicas share it.

A turn is found by the ids of the calls, or of the last reasoning item, that the client received. The gateway generates
these ids (`call_ids`), so that they cannot be guessed and occur in no other conversation. Other keys do not work: two
conversations of one user may have equal names and arguments of calls, and clients cut and rewrite earlier messages.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.pairs.turn_translation import translate_turn
from fairlead_formats.wire.call_ids import is_made_here, may_keep_turn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import (
    REASONING_KEYS,
    AnswerRange,
    CallKey,
    StoredTurn,
    TranslationLosses,
    WireFormat,
)
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.result_stores.store import ContextUnavailable

MAX_LOOKUPS: Final = 64
"""Maximum number of answers in one request whose turns are looked up; of more answers, the last are looked up."""
NOT_KEPT: Final = "turn_not_kept"
"""Loss code for a turn that cannot be stored. The gateway did not run its own calls in a message that also calls the
client's tools; the model may repeat them.
"""
NOT_RESTORED: Final = "turns_not_restored"
"""Loss code for a store that cannot be reached: the conversation that the model gets lacks calls that the gateway ran.
"""
_ENTRY: Final = "turn"
_PROBE: Final = "turn probe"
"""Name of a session without entries. Looking it up shows whether the store is reachable."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StoredTurn).decode
log = logging.getLogger(__name__)


class TurnKeeping(Enum):
    """Whether a turn that begins now can be found when the client sends its results."""

    SURE = auto()
    """The store is reachable, and the client has returned call ids, or its API requires them."""
    LIKELY = auto()
    """The store is reachable. The client may drop call ids, and has not returned a call so far."""
    NONE = auto()
    """There is no store, it is unreachable, or the client drops call ids."""


class TurnStore:
    """Stores the parts of turns that clients do not receive, and restores them in later requests."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    @property
    def enabled(self) -> bool:
        """Whether this gateway has a store for turns."""
        return self._recorder.store is not None

    async def keeping(
        self, identity: Identity, client_format: WireFormat, messages: Sequence[bytes | Raw]
    ) -> TurnKeeping:
        """Whether a turn that begins with the answer to a request can be found again. `messages`: the client's
        messages, in its format `client_format`.
        """
        store, keeping = self._recorder.store, _keeping_of_client(client_format, messages)
        if store is None or keeping is TurnKeeping.NONE:
            return TurnKeeping.NONE
        try:
            await store.entry(self._recorder.account(identity, _PROBE), _PROBE, _ENTRY)
        except ContextUnavailable:
            return TurnKeeping.NONE
        return keeping

    async def keep(
        self,
        identity: Identity,
        client_calls: Sequence[CallKey],
        turn: StoredTurn,
    ) -> bool:
        """Store a turn under the calls that the client receives, in place of an earlier entry. Returns whether the turn
        was stored.
        """
        store = self._recorder.store
        if store is None or not all(may_keep_turn(call.id) or call.name in REASONING_KEYS for call in client_calls):
            return False
        session = _session(client_calls)
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(turn))
        except ContextUnavailable as error:
            log.warning("A turn was not stored, so the model may repeat its calls: %s", error)
            return False
        return True

    async def restore(
        self,
        identity: Identity,
        wire: WireFormat,
        messages: Sequence[bytes | Raw],
        losses: TranslationLosses,
        *,
        asks_model: bool = True,
    ) -> Sequence[bytes | Raw]:
        """The messages, with stored turns in place of the parts that the client received. `losses` gets `NOT_RESTORED`
        if the store cannot be reached. In that case, LlmError (503) is raised if a model is to answer (`asks_model`)
        and has not yet answered the last calls, because the model would repeat that turn's calls.
        """
        answer_ranges = wire.answer_ranges(messages)[-MAX_LOOKUPS:] if self._recorder.store is not None else ()
        if not answer_ranges:
            return messages
        results = await asyncio.gather(
            *(self._find(identity, wire, answer_range.calls) for answer_range in answer_ranges), return_exceptions=True
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, ContextUnavailable):
                raise failure
        if asks_model and isinstance(results[-1], ContextUnavailable) and _is_open(wire, messages, answer_ranges[-1]):
            raise LlmError(
                503,
                f"the results of calls that the gateway ran in this turn cannot be looked up ({results[-1]}); no tool "
                "and no model was called, so the request can be repeated",
                "store_unavailable",
                headers={"retry-after": "1"},
            ) from results[-1]
        if failures:  # one log line for all failures
            losses.add(NOT_RESTORED)
            log.warning("Stored turns cannot be restored, so the model may repeat their calls: %s", failures[0])
        turns = {
            answer_range.start: turn
            for answer_range, turn in zip(answer_ranges, results, strict=True)
            if isinstance(turn, StoredTurn)
        }
        return wire.restore(messages, turns) if turns else messages

    async def _find(self, identity: Identity, wire: WireFormat, client_calls: Sequence[CallKey]) -> StoredTurn | None:
        """The turn that is stored under these calls. Raises ContextUnavailable."""
        store = self._recorder.store
        if store is None or not all(may_keep_turn(call.id) or call.name in REASONING_KEYS for call in client_calls):
            return None
        session = _session(client_calls)
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            turn = _decode(entries[-1]) if entries else None
        except msgspec.MsgspecError:
            return None
        return translate_turn(turn, wire.name) if turn is not None and turn.format != wire.name else turn


def _keeping_of_client(client_format: WireFormat, messages: Sequence[bytes | Raw]) -> TurnKeeping:
    """Whether a client returns call ids, judged by the last calls of its conversation."""
    for answer_range in reversed(client_format.answer_ranges(messages)):
        calls = _keys_of_calls(answer_range)
        if calls:
            return TurnKeeping.SURE if all(is_made_here(call.id) for call in calls) else TurnKeeping.NONE
    return TurnKeeping.SURE if client_format.needs_call_ids else TurnKeeping.LIKELY


def _is_open(wire: WireFormat, messages: Sequence[bytes | Raw], answer_range: AnswerRange) -> bool:
    """Whether the model has not answered after these calls."""
    later_messages = (wire.role_and_text(message) for message in messages[answer_range.end :])
    return bool(_keys_of_calls(answer_range)) and all(role != "assistant" or not text for role, text in later_messages)


def _keys_of_calls(answer_range: AnswerRange) -> list[CallKey]:
    return [call for call in answer_range.calls if call.name not in REASONING_KEYS]


def _session(client_calls: Sequence[CallKey]) -> str:
    """Name of a turn's session in the store: a digest of the client's calls, equal in all wire formats."""
    names = json.dumps([[call.id, call.name] for call in client_calls])
    return f"turn {hashlib.blake2b(names.encode(), digest_size=24).hexdigest()}"
