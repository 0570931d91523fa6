"""Turns that have to be whole again when the caller comes back: mixed ones, which call tools of ours and of the
caller's, and those of several rounds that end with calls of the caller's, or whose signed thoughts an API takes in
their own messages only.

The caller sees its own calls alone, and comes back with their results. Results of ours wait for it in the store of
kept results: bound to the principal, for a time, in Redis where replicas share it. A turn is found by the calls, or the
last thought, that the caller saw. Their ids are made here (`call_ids`): nobody else can know them, and no other
conversation has them. Nothing is found by what can be guessed, such as names and arguments of calls, which two
conversations of one key may share; and nothing depends on the conversation in front, which clients cut and rewrite.
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
from fairlead_formats.wire.protocol import MARKED_THOUGHTS, CallKey, CallPlace, KeptTurn, WireFormat
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity

MOST_LOOKED_UP: Final = 64
"""Messages of one request that are looked up, the last ones."""
NOT_KEPT: Final = "turn_not_kept"
"""Code of a loss: a turn cannot be kept. Calls of ours beside the caller's were not run, and the model asks anew."""
NOT_RESTORED: Final = "turns_not_restored"
"""Code of a loss: the store does not answer, and turns of the conversation lack what was run here."""
_ENTRY: Final = "turn"
_PROBE: Final = "turn probe"
"""Name of a session that has no entries."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(KeptTurn).decode
log = logging.getLogger(__name__)


class TurnKeeping(Enum):
    """Whether a turn that begins now can be found again when the caller comes back into it."""

    SURE = auto()
    """The store answers, and the client has sent ids of calls back, or has to by its API."""
    LIKELY = auto()
    """As `SURE`, of a client that may drop ids, and has sent no call back yet."""
    NONE = auto()
    """Nothing is kept, the store is out, or the client drops ids."""


class TurnStore:
    """Keeps the parts of turns that the caller does not get, and puts them back into its next request."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    @property
    def enabled(self) -> bool:
        """Whether this gateway keeps turns at all."""
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
        turn: KeptTurn,
    ) -> bool:
        """Keep a turn with those of its calls that the caller sees, in place of what was kept of it before; whether it
        was.
        """
        store = self._recorder.store
        if store is None or not all(may_keep_turn(call.id) or call.name in MARKED_THOUGHTS for call in shown):
            return False
        session = _session(shown)
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(turn))
        except ContextUnavailable as error:
            log.warning("A turn of a model is not kept for its caller: %s", error)
            return False
        return True

    async def restored(
        self,
        identity: Identity,
        wire: WireFormat,
        messages: Sequence[bytes | Raw],
        losses: TranslationLosses,
        *,
        asks: bool = True,
    ) -> Sequence[bytes | Raw]:
        """The messages, each that a turn is kept for replaced by the whole turn. `losses` gets `NOT_RESTORED` where the
        store is out. Raises LlmError (503) where it is, a turn may be kept that the model has not gone on from, and the
        request `asks` the model: it would order the calls of that turn a second time.
        """
        places = wire.places(messages)[-MOST_LOOKED_UP:] if self._recorder.store is not None else ()
        if not places:
            return messages
        found = await asyncio.gather(
            *(self._found(identity, wire, place.calls) for place in places), return_exceptions=True
        )
        failures = [each for each in found if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ContextUnavailable):
                raise failure
        if asks and isinstance(found[-1], ContextUnavailable) and _is_open(wire, messages, places[-1]):
            raise LlmError(
                503,
                f"results of calls that the gateway ran for this turn cannot be looked up ({found[-1]}): no tool and "
                "no model was called for this request, send it again",
                "store_unavailable",
                headers={"retry-after": "1"},
            ) from found[-1]
        if failures:  # one line for all of them
            losses.add(NOT_RESTORED)
            log.warning(
                "Turns that were kept are not put back, and the model may ask for results again: %s", failures[0]
            )
        turns = {place.start: turn for place, turn in zip(places, found, strict=True) if isinstance(turn, KeptTurn)}
        return wire.restore(messages, turns) if turns else messages

    async def _found(self, identity: Identity, wire: WireFormat, shown: Sequence[CallKey]) -> KeptTurn | None:
        """The turn of these calls. Raises ContextUnavailable."""
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
    """Whether a client sends ids of calls back, by the last calls of its conversation."""
    for place in reversed(front.places(messages)):
        calls = _without_thoughts(place)
        if calls:
            return TurnKeeping.SURE if all(is_made_here(call.id) for call in calls) else TurnKeeping.NONE
    return TurnKeeping.SURE if front.needs_call_ids else TurnKeeping.LIKELY


def _is_open(wire: WireFormat, messages: Sequence[bytes | Raw], place: CallPlace) -> bool:
    """Whether the model has not gone on since it made the calls of a place."""
    behind = (wire.role_and_text(message) for message in messages[place.end :])
    return bool(_without_thoughts(place)) and all(role != "assistant" or not text for role, text in behind)


def _without_thoughts(place: CallPlace) -> list[CallKey]:
    return [call for call in place.calls if call.name not in MARKED_THOUGHTS]


def _session(shown: Sequence[CallKey]) -> str:
    """Name of a turn: a digest of what the caller has of it, in any wire format."""
    names = json.dumps([[call.id, call.name] for call in shown])
    return f"turn {hashlib.blake2b(names.encode(), digest_size=24).hexdigest()}"
