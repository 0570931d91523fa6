"""Chooses a latency tier for a turn of a conversation, by the first rule that applies.

    command          the user asked for a tier explicitly; applies to this turn and the next two
    queue            so many requests wait that a fast tier is preferred
    keywords         the text has keywords of tiers: the slowest of these tiers that is not in its cooldown
    conversation     the first turn of the conversation, or a rapid exchange of short turns
    default          no other rule applied

Pure. While a turn is still being transcribed, a later choice may select a slower tier. It may select a faster tier only
by the rules `command` and `queue`; otherwise the tier stays, and the rule is called `steady`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_gateway.conversation.phrases import Phrases, drop_last_word, expression, normalize
from fairlead_gateway.conversation.shipped_words import words_of
from fairlead_gateway.conversation.turn import COMMAND_TURNS, Choice, ConversationState, Turn
from fairlead_gateway.policy.tiers import by_speed, default_tier

RAPID_TURNS: Final = 3
RAPID_SECONDS: Final = 5.0
"""A rapid exchange is `RAPID_TURNS` turns, each of which began at most `RAPID_SECONDS` after the previous turn."""


class _Meaning(msgspec.Struct, frozen=True):
    """Effect of a phrase on the choice."""

    tier: int
    """Index of the tier in `Chooser.tiers`."""
    command: bool
    """Whether the phrase is a command; otherwise it is a keyword."""


class Chooser:
    """Chooses tiers by the settings and words of an installation's tiers, compiled once per rules document."""

    def __init__(self, tiers: Sequence[Tier]) -> None:
        """Compile the words of the tiers. Raises ValueError if there are no tiers."""
        if not tiers:
            raise ValueError("the installation has no latency tiers to choose from")
        self.tiers = by_speed(tuple(tiers))
        default = default_tier(tuple(tiers))
        self._default = self.tiers.index(default) if default is not None else 0
        self._selections = [tier.selection for tier in self.tiers]
        self.ignored: list[str] = []
        """Messages about phrases that cannot be used, one per phrase."""
        self._phrases = Phrases(self._compile())

    def choose(self, turn: Turn, state: ConversationState, now: float) -> tuple[Choice, ConversationState]:
        """Choose the tier for the turn from its transcript so far. Also returns the state for the next call.

        `now` is in seconds since the epoch.
        """
        number = _number(turn, state)
        began = state.began if number == state.turn else (*state.began, now)[-RAPID_TURNS:]
        text = normalize(turn.text if turn.final else drop_last_word(turn.text))
        phrases = self._phrases.find(text)
        commanded, last_turn, phrase = self._command(phrases, text, number, state)
        index, rule, matched = self._by_rule(phrases, turn, state, commanded, now)
        if rule == "default":
            index, rule = self._by_conversation(number, began)
        if rule == "command":
            matched = phrase
        elif number == state.turn and state.tier is not None:
            index, rule, matched = self._keep_tier_of_turn(index, rule, matched, state)
        tier = self.tiers[index]
        answered = {**state.answered, tier.name: now} if turn.final else state.answered
        next_state = ConversationState(
            turn=number,
            growing=not turn.final,
            tier=tier.name,
            commanded=commanded,
            commanded_until=last_turn,
            answered=answered,
            began=began,
        )
        choice = Choice(tier=tier.name, number=number, rule=rule, matched=matched, limit_ms=tier.max_latency_ms)
        return choice, next_state

    def _by_rule(
        self,
        phrases: list[tuple[str, _Meaning]],
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
        keywords = {meaning.tier: phrase for phrase, meaning in reversed(phrases) if not meaning.command}
        for index in sorted(keywords, reverse=True):
            if not self._is_cooling(index, state, now):
                return index, "keywords", keywords[index]
        return self._default, "default", None

    def _command(
        self, phrases: list[tuple[str, _Meaning]], text: str, number: int, state: ConversationState
    ) -> tuple[str | None, int, str | None]:
        """The tier that a command of the user selects, the number of the last turn to which the command applies, and
        the phrase of the command.

        If the text has several commands, the last one counts.
        """
        commands = {phrase: meaning.tier for phrase, meaning in phrases if meaning.command}
        if commands:
            phrase = next(iter(commands)) if len(commands) == 1 else self._phrases.last(text, commands)
            return self.tiers[commands[phrase]].name, number + COMMAND_TURNS - 1, phrase
        is_tier = any(tier.name == state.commanded for tier in self.tiers)
        if is_tier and number <= state.commanded_until:
            return state.commanded, state.commanded_until, None
        return None, -1, None

    def _is_cooling(self, index: int, state: ConversationState, now: float) -> bool:
        """Whether a tier is in its cooldown because an earlier turn was answered in it."""
        cooldown = self._selections[index].cooldown_ms / 1000
        answered_at = state.answered.get(self.tiers[index].name)
        return cooldown > 0 and answered_at is not None and 0 <= now - answered_at < cooldown

    def _by_conversation(self, number: int, start_times: tuple[float, ...]) -> tuple[int, str]:
        """The tier for the first turn of a conversation, or for a rapid exchange, and the name of the rule."""
        gaps = (later - earlier for earlier, later in pairwise(start_times))
        is_rapid = len(start_times) == RAPID_TURNS and all(gap <= RAPID_SECONDS for gap in gaps)
        circumstances = {"FirstTurn"} if number == 0 else {"RapidExchange"} if is_rapid else set()
        for index, selection in enumerate(self._selections):
            if circumstances & set(selection.conversation_states):
                return index, "conversation"
        return self._default, "default"

    def _keep_tier_of_turn(
        self, index: int, rule: str, matched: str | None, state: ConversationState
    ) -> tuple[int, str, str | None]:
        """Keep the tier that was already chosen for this turn if the new choice is a faster tier, unless the rule
        `queue` chose it."""
        names = [tier.name for tier in self.tiers]
        if state.tier in names and names.index(state.tier) > index and rule != "queue":
            return names.index(state.tier), "steady", None
        return index, rule, matched

    def _compile(self) -> list[tuple[str, _Meaning]]:
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
                        usable.append((phrase, _Meaning(index, command)))
        return usable


def _number(turn: Turn, state: ConversationState) -> int:
    if turn.number is not None:
        return turn.number
    return state.turn if state.growing else state.turn + 1
