"""The choice of a tier: rules in a fixed order, each with a name that the answer gives.

    command          somebody asked for a tier outright; holds for this turn and the next two
    queue            so many requests wait that a fast tier is preferred
    keywords         words that ask for a tier, the slowest first, unless it was answered in a moment ago
    conversation     the first turn, or a rapid exchange of short ones
    default          none of these

Pure. Within one turn a growing transcript raises the tier and never lowers it, unless a command does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_gateway.conversation.phrases import Phrases, expression, normal, settle
from fairlead_gateway.conversation.shipped_words import words_of
from fairlead_gateway.conversation.turn import COMMAND_TURNS, Choice, ConversationState, Turn
from fairlead_gateway.policy.tiers import by_speed, default_tier

RAPID_TURNS: Final = 3
RAPID_SECONDS: Final = 5.0
"""A rapid exchange: that many turns, each begun within that many seconds of the one before."""


class _Wanted(msgspec.Struct, frozen=True):
    tier: int
    command: bool


class Chooser:
    """The rules of an installation, compiled once per rules document."""

    def __init__(self, tiers: Sequence[Tier]) -> None:
        """Without a tier there is nothing to choose: raises ValueError."""
        if not tiers:
            raise ValueError("there is no latency tier to choose from")
        self.tiers = by_speed(tuple(tiers))
        default = default_tier(tuple(tiers))
        self._default = self.tiers.index(default) if default is not None else 0
        self._selections = [tier.selection for tier in self.tiers]
        self.ignored: list[str] = []
        """Phrases that cannot be used, with the reason."""
        self._phrases = Phrases(self._compile())

    def choose(self, turn: Turn, state: ConversationState, now: float) -> tuple[Choice, ConversationState]:
        """The tier for this turn as far as it is known, and the state to bring along next time."""
        number = _number(turn, state)
        began = state.began if number == state.turn else (*state.began, now)[-RAPID_TURNS:]
        text = normal(turn.text if turn.final else settle(turn.text))
        phrases = self._phrases.find(text)
        commanded, until, phrase = self._command(phrases, text, number, state)
        index, rule, matched = self._by_rule(phrases, turn, state, commanded, now)
        if rule == "default":
            index, rule = self._circumstance(number, began)
        if rule == "command":
            matched = phrase
        elif number == state.turn and state.tier is not None:
            index, rule, matched = self._steady(index, rule, matched, state)
        tier = self.tiers[index]
        answered = {**state.answered, tier.name: now} if turn.final else state.answered
        after = ConversationState(
            turn=number,
            growing=not turn.final,
            tier=tier.name,
            commanded=commanded,
            commanded_until=until,
            answered=answered,
            began=began,
        )
        return Choice(tier=tier.name, number=number, rule=rule, matched=matched, limit_ms=tier.max_latency_ms), after

    def _by_rule(
        self,
        phrases: list[tuple[str, _Wanted]],
        turn: Turn,
        state: ConversationState,
        commanded: str | None,
        now: float,
    ) -> tuple[int, str, str | None]:
        names = [tier.name for tier in self.tiers]
        if commanded is not None:
            return names.index(commanded), "command", None
        for index, selection in enumerate(self._selections):
            if selection.queue_depth is not None and turn.queue_depth >= selection.queue_depth:
                return index, "queue", None
        wanted = {want.tier: phrase for phrase, want in reversed(phrases) if not want.command}
        for index in sorted(wanted, reverse=True):
            if not self._cooling(index, turn, state, now):
                return index, "keywords", wanted[index]
        return self._default, "default", None

    def _command(
        self, phrases: list[tuple[str, _Wanted]], text: str, number: int, state: ConversationState
    ) -> tuple[str | None, int, str | None]:
        """The tier asked for, the last turn that holds for, and the phrase; of several commands the last counts."""
        commands = {phrase: want.tier for phrase, want in phrases if want.command}
        if commands:
            phrase = next(iter(commands)) if len(commands) == 1 else self._phrases.last(text, commands)
            return self.tiers[commands[phrase]].name, number + COMMAND_TURNS - 1, phrase
        is_tier = any(tier.name == state.commanded for tier in self.tiers)
        if is_tier and number <= state.commanded_until:
            return state.commanded, state.commanded_until, None
        return None, -1, None

    def _cooling(self, index: int, turn: Turn, state: ConversationState, now: float) -> bool:
        """Whether the tier was answered in a moment ago, by an earlier turn."""
        cooldown, last = self._selections[index].cooldown_ms / 1000, state.answered.get(self.tiers[index].name)
        return cooldown > 0 and last is not None and 0 <= now - last < cooldown

    def _circumstance(self, number: int, began: tuple[float, ...]) -> tuple[int, str]:
        """Tier and rule by the course of the conversation, where nothing that was said decides."""
        gaps = (later - earlier for earlier, later in pairwise(began))
        rapid = len(began) == RAPID_TURNS and all(gap <= RAPID_SECONDS for gap in gaps)
        circumstances = {"FirstTurn"} if number == 0 else {"RapidExchange"} if rapid else set()
        for index, selection in enumerate(self._selections):
            if circumstances & set(selection.conversation_states):
                return index, "conversation"
        return self._default, "default"

    def _steady(
        self, index: int, rule: str, matched: str | None, state: ConversationState
    ) -> tuple[int, str, str | None]:
        """Never below what was chosen for this turn already."""
        names = [tier.name for tier in self.tiers]
        if state.tier in names and names.index(state.tier) > index and rule != "queue":
            return names.index(state.tier), "steady", None
        return index, rule, matched

    def _compile(self) -> list[tuple[str, _Wanted]]:
        usable = []
        for index, tier in enumerate(self.tiers):
            keywords, commands = words_of(tier)
            for command, phrases in ((False, keywords), (True, commands)):
                for phrase in phrases:
                    try:
                        expression(phrase)
                    except ValueError as error:
                        self.ignored.append(str(error))
                    else:
                        usable.append((phrase, _Wanted(index, command)))
        return usable


def _number(turn: Turn, state: ConversationState) -> int:
    if turn.number is not None:
        return turn.number
    return state.turn if state.growing else state.turn + 1
