"""Turns that have to be whole again when the caller comes back: mixed ones, which call tools of ours and of the
caller's, and those of several rounds whose signed thoughts an API takes in their own messages only.

The caller sees its own calls alone, and comes back with their results. Results of ours wait for it in the store of
kept results: bound to the principal, for a time, in Redis where replicas share it. A turn is found by the conversation
in front of it and the calls, or the last thought, that the caller saw. Their ids are made here (`call_ids`): nobody
else can know them, and no other conversation has them. Where a turn is gone, the caller's message stands as it came,
and the model asks anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_llm.between.kept_turns import translated_turn
from fairlead_llm.between.losses import TranslationLosses
from fairlead_llm.call_ids import made_here
from fairlead_llm.conversation_digest import ConversationDigest
from fairlead_llm.wire import MARKED_THOUGHTS, CallKey, CallPlace, KeptTurn, WireFormat

MOST_LOOKED_UP: Final = 64
"""Messages of one request that are looked up, the last ones."""
NOT_KEPT: Final = "turn_not_kept"
"""Code of a loss: the store takes no turn, and the model will ask anew."""
NOT_RESTORED: Final = "turns_not_restored"
"""Code of a loss: the store does not answer, and turns of the conversation lack what was run here."""
_ENTRY: Final = "turn"
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(KeptTurn).decode
log = logging.getLogger(__name__)


class TurnStore:
    """Keeps the parts of turns that the caller does not get, and puts them back into its next request."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def keep(
        self,
        identity: Identity,
        wire: WireFormat,
        conversation: Sequence[bytes | Raw],
        kept: tuple[Sequence[CallKey], KeptTurn] | None,
        losses: TranslationLosses,
    ) -> None:
        """Keep a turn, if there is one to be kept, with those of its calls that the caller sees; `conversation` are the
        messages of the caller's request. `losses` gets `NOT_KEPT` where the store is out.
        """
        store = self._recorder.store
        if store is None or kept is None or not _are_ours(kept[0]):
            return
        shown, turn = kept
        session = _session(ConversationDigest(wire).up_to(conversation, len(conversation)), shown)
        try:
            account = self._recorder.account(identity, session)
            await store.append(account, session, _ENTRY, _encode(turn))
        except ContextUnavailable as error:
            losses.add(NOT_KEPT)
            log.warning("The results of a mixed turn are not kept, and the model will ask for them again: %s", error)

    async def restored(
        self, identity: Identity, wire: WireFormat, messages: Sequence[bytes | Raw], losses: TranslationLosses
    ) -> Sequence[bytes | Raw]:
        """The messages, each that a turn is kept for replaced by the whole turn. `losses` gets `NOT_RESTORED` where the
        store is out.
        """
        places = wire.places(messages)[-MOST_LOOKED_UP:] if self._recorder.store is not None else ()
        if not places:
            return messages
        said = ConversationDigest(wire)
        sessions = [_session(said.up_to(messages, place.start), place.calls) for place in places]
        found = await asyncio.gather(
            *(self._found(identity, wire, session, place) for session, place in zip(sessions, places, strict=True)),
            return_exceptions=True,
        )
        failures = [each for each in found if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ContextUnavailable):
                raise failure
        if failures:  # one line for all of them
            losses.add(NOT_RESTORED)
            log.warning(
                "Turns that were kept are not put back, and the model may ask for results again: %s", failures[0]
            )
        turns = {place.start: turn for place, turn in zip(places, found, strict=True) if isinstance(turn, KeptTurn)}
        return wire.restored(messages, turns) if turns else messages

    async def _found(self, identity: Identity, wire: WireFormat, session: str, place: CallPlace) -> KeptTurn | None:
        """The turn of a place. Raises ContextUnavailable."""
        store = self._recorder.store
        if store is None or not _are_ours(place.calls):
            return None
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            turn = _decode(entries[-1]) if entries else None
        except msgspec.MsgspecError:
            return None
        return translated_turn(turn, wire.name) if turn is not None and turn.format != wire.name else turn


def _are_ours(shown: Sequence[CallKey]) -> bool:
    """Whether a turn is found by ids that are made here, of calls, or by marks of thoughts, which are made here too."""
    return all(made_here(call.id) or call.name in MARKED_THOUGHTS for call in shown)


def _session(said: hashlib.blake2b, shown: Sequence[CallKey]) -> str:
    """Name of a turn: a digest of what the caller has of it, in any wire format."""
    said.update(json.dumps([[call.id, call.name] for call in shown]).encode())
    return f"turn {said.hexdigest()}"
