"""Stores turns of which the caller gets only a part, and restores them in its next request: turns that call tools of
the gateway and of the caller, turns of several rounds that end with calls of the caller, and turns whose signed
thoughts an API takes only in their own messages.

The caller gets its own calls alone, and sends their results. The rest of the turn waits in the store of kept results:
bound to the principal, for a time, in Redis where replicas share it. A turn is found by the calls, or the last thought,
that the caller got. The gateway makes their ids (`call_ids`): nobody can guess them, and no other conversation has
them. Names and arguments of calls would not do, as two conversations of one key may share them; nor would the messages
before, which clients cut and rewrite.
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

from fairlead_formats.pairs.kept_turns import translate_turn
from fairlead_formats.wire.call_ids import is_made_here, may_keep_turn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.losses import TranslationLosses
from fairlead_formats.wire.protocol import MARKED_THOUGHTS, AnswerRange, CallKey, StoredTurn, WireFormat
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity

MOST_LOOKED_UP: Final = 64
"""Messages of one request whose turns are looked up, from the last one back."""
NOT_KEPT: Final = "turn_not_kept"
"""Code of a loss: a turn cannot be stored. The gateway's calls beside the caller's were not run; the model may repeat
them.
"""
NOT_RESTORED: Final = "turns_not_restored"
"""Code of a loss: the store cannot be reached, and turns of the conversation lack calls that the gateway ran."""
_ENTRY: Final = "turn"
_PROBE: Final = "turn probe"
"""Name of a session without entries, whose look-up shows that the store answers."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StoredTurn).decode
log = logging.getLogger(__name__)


class TurnKeeping(Enum):
    """Whether a turn that begins now can be found again when the caller sends its results."""

    SURE = auto()
    """The store answers, and the client has sent call ids back, or its API requires that."""
    LIKELY = auto()
    """The store answers; the client may drop call ids, and has sent no call back yet."""
    NONE = auto()
    """There is no store, it cannot be reached, or the client drops call ids."""


class TurnStore:
    """Stores the parts of turns that the caller does not get, and restores them in its next request."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    @property
    def enabled(self) -> bool:
        """Whether this gateway stores turns at all."""
        return self._recorder.store is not None

    async def keeping(self, identity: Identity, front: WireFormat, messages: Sequence[bytes | Raw]) -> TurnKeeping:
        """Whether a turn that the answer to a request begins can be found again. `messages` are the client's, in its
        format `front`.
        """
        store, keeping = self._recorder.store, _of_client(front, messages)
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
        shown: Sequence[CallKey],
        turn: StoredTurn,
    ) -> bool:
        """Store a turn under those of its calls that the caller gets, replacing what was stored under them. Whether
        that succeeded.
        """
        store = self._recorder.store
        if store is None or not all(may_keep_turn(call.id) or call.name in MARKED_THOUGHTS for call in shown):
            return False
        session = _session(shown)
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(turn))
        except ContextUnavailable as error:
            log.warning("A turn of a model cannot be stored for its caller: %s", error)
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
        """The messages, with stored turns in place of the parts that the caller has. `losses` gets `NOT_RESTORED` where
        the store cannot be reached. Raises LlmError (503) if then the last calls have no answer of the model yet and
        the request goes to the model (`asks_model`): it would make the calls of that turn a second time.
        """
        answer_ranges = wire.answer_ranges(messages)[-MOST_LOOKED_UP:] if self._recorder.store is not None else ()
        if not answer_ranges:
            return messages
        results = await asyncio.gather(
            *(self._find(identity, wire, answer_range.calls) for answer_range in answer_ranges), return_exceptions=True
        )
        failures = [each for each in results if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ContextUnavailable):
                raise failure
        if asks_model and isinstance(results[-1], ContextUnavailable) and _is_open(wire, messages, answer_ranges[-1]):
            raise LlmError(
                503,
                f"results of calls that the gateway ran for this turn cannot be looked up ({results[-1]}): no tool and "
                "no model was called for this request, send it again",
                "store_unavailable",
                headers={"retry-after": "1"},
            ) from results[-1]
        if failures:  # one line for all of them
            losses.add(NOT_RESTORED)
            log.warning("Stored turns cannot be restored, and the model may make their calls again: %s", failures[0])
        turns = {
            answer_range.start: turn
            for answer_range, turn in zip(answer_ranges, results, strict=True)
            if isinstance(turn, StoredTurn)
        }
        return wire.restore(messages, turns) if turns else messages

    async def _find(self, identity: Identity, wire: WireFormat, shown: Sequence[CallKey]) -> StoredTurn | None:
        """The turn that is stored under these calls. Raises ContextUnavailable."""
        store = self._recorder.store
        if store is None or not all(may_keep_turn(call.id) or call.name in MARKED_THOUGHTS for call in shown):
            return None
        session = _session(shown)
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            turn = _decode(entries[-1]) if entries else None
        except msgspec.MsgspecError:
            return None
        return translate_turn(turn, wire.name) if turn is not None and turn.format != wire.name else turn


def _of_client(front: WireFormat, messages: Sequence[bytes | Raw]) -> TurnKeeping:
    """Whether a client sends call ids back, by the last calls of its conversation."""
    for answer_range in reversed(front.answer_ranges(messages)):
        calls = _keys_of_calls(answer_range)
        if calls:
            return TurnKeeping.SURE if all(is_made_here(call.id) for call in calls) else TurnKeeping.NONE
    return TurnKeeping.SURE if front.needs_call_ids else TurnKeeping.LIKELY


def _is_open(wire: WireFormat, messages: Sequence[bytes | Raw], answer_range: AnswerRange) -> bool:
    """Whether no message of the model follows the calls of a place."""
    behind = (wire.role_and_text(message) for message in messages[answer_range.end :])
    return bool(_keys_of_calls(answer_range)) and all(role != "assistant" or not text for role, text in behind)


def _keys_of_calls(answer_range: AnswerRange) -> list[CallKey]:
    return [call for call in answer_range.calls if call.name not in MARKED_THOUGHTS]


def _session(shown: Sequence[CallKey]) -> str:
    """Name of a turn in the store: a digest of the calls that the caller got, the same in all wire formats."""
    names = json.dumps([[call.id, call.name] for call in shown])
    return f"turn {hashlib.blake2b(names.encode(), digest_size=24).hexdigest()}"
