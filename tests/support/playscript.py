"""A session of a game, which can be played over any speech engine: what is said, which tools are called, in which
tiers.

In each step, the user says something and the model calls tools. A step ends when the model has answered, or is
interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fairlead_speech.scripted import SpeechScript, SpokenCall, SpokenReply

HOLD: Final = "lighthouse bells"
"""Query of a search that is never answered."""
WAITS: Final = "Let me see."
"""Answer of a model that gets its tools only with the next turn."""
WELL: Final = "Well then?"
End = Literal["answered", "interrupted", "cancelled"]


@dataclass(frozen=True)
class Step:
    """One exchange. An `interrupted` step ends after the first sentence of the answer, which is a single word. A
    `cancelled` step ends while its calls run, when the user speaks again.
    """

    name: str
    spoken: str
    tier: str
    answer: str = ""
    rounds: tuple[tuple[SpokenCall, ...], ...] = ()
    """Rounds of calls. The calls of a round are made together, when all calls of the round before have their results. A
    call for which a model may not wait is alone in its round, because some engines continue after each result.
    """
    wish: str = ""
    """Tier that the client requests first, as a command of the game master; empty if the words select the tier."""
    refused: bool = False
    """Whether the calls are of hidden tools."""
    end: End = "answered"

    @property
    def calls(self) -> list[SpokenCall]:
        """All calls, in their order."""
        return [call for each in self.rounds for call in each]

    @property
    def asks(self) -> bool:
        """Whether the user's words must select other tools."""
        return not self.wish and self.tier in ("standard", "deep") and self.name not in ("greeting", "image")


STEPS: Final = (
    Step(
        "greeting",
        "Good evening to the table.",
        "standard",
        "Welcome back. Last time you found the bell.",
        ((SpokenCall("memory__search_sessions", {"query": "bell"}, "call_sessions"),),),
    ),
    Step(
        "banter",
        "Ha, roll me one for luck.",
        "fast",
        "Luck is with you tonight.",
        (
            (
                SpokenCall("dice-roller__roll", {"expression": "1d20"}, "call_roll"),
                SpokenCall("memory__query_entities", {"query": "bell"}, "call_entities"),
            ),
        ),
    ),
    Step(
        "rules",
        "Look it up, how does falling work?",
        "standard",
        "It hurts, and here is how much.",
        (
            (SpokenCall("rules-lookup__search_rules", {"query": "falling"}, "call_rules"),),
            (SpokenCall("rules-lookup__get_rule", {"id": "lantern/falling"}, "call_rule"),),
        ),
    ),
    Step(
        "deep",
        "Think carefully, what of the bell and the tides?",
        "deep",
        "The bell rings when the tide turns.",
        (
            (
                SpokenCall("memory__search_facts", {"query": "bell"}, "call_facts"),
                SpokenCall("session-manager__search_history", {"query": "rope"}, "call_history"),
            ),
            (SpokenCall("web-search__search", {"query": "tides"}, "call_search"),),
            (SpokenCall("web-search__fetch_page", {"url": "index:tides.md"}, "call_page"),),
        ),
    ),
    Step(
        "image",
        "Draw us the harbor at night.",
        "deep",
        "Here it is.",
        (
            (
                SpokenCall("file-io__write_file", {"path": "log.md", "content": "The harbor."}, "call_write"),
                SpokenCall("music-ambiance__play_track", {"mood": "calm"}, "call_play"),
            ),
            (SpokenCall("image-gen__generate_image", {"prompt": "A harbor", "style": "night"}, "call_draw"),),
        ),
    ),
    Step(
        "DM: fast",
        "Draw one more, a ship.",
        "fast",
        "Not now.",
        ((SpokenCall("image-gen__generate_image", {"prompt": "A ship"}, "call_refused"),),),
        wish="fast",
        refused=True,
    ),
    Step(
        "DM: deep",
        "Tell us of the sea.",
        "deep",
        "Listen! Far out the moon pulls at the water, night after night.",
        wish="deep",
        end="interrupted",
    ),
    Step(
        "interrupted",
        "Wait, search for the bells.",
        "deep",
        rounds=((SpokenCall("web-search__search", {"query": HOLD}, "call_held"),),),
        wish="deep",
        end="cancelled",
    ),
    Step(
        "stop",
        "Never mind, stop the music.",
        "deep",
        "Silence it is.",
        ((SpokenCall("music-ambiance__stop_music", {}, "call_stop"),),),
        wish="deep",
    ),
)


@dataclass(frozen=True)
class Turn:
    """Words of the user, and the model's answers."""

    spoken: str
    replies: tuple[SpokenReply, ...]
    answer: str


def turns(step: Step, *, late: bool) -> list[Turn]:
    """Turns of a step. `late` means that selected tools are available only in the next turn."""
    texts = [SpokenReply("", calls) for calls in step.rounds]
    if step.answer:
        texts.append(SpokenReply(step.answer, held=asyncio.Event() if step.end == "interrupted" else None))
    if late and step.asks:
        return [Turn(step.spoken, (SpokenReply(WAITS),), WAITS), Turn(WELL, tuple(texts), step.answer)]
    return [Turn(step.spoken, tuple(texts), step.answer)]


def script(steps: Sequence[Step], *, late: bool) -> SpeechScript:
    """All replies and all user speech of a session, in order."""
    turns_of_steps = [turn for step in steps for turn in turns(step, late=late)]
    return SpeechScript(
        *(reply for turn in turns_of_steps for reply in turn.replies),
        transcripts=tuple(turn.spoken for turn in turns_of_steps),
    )
