"""Which rule chooses the tier of a turn."""

from __future__ import annotations

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_gateway.conversation.choose import Chooser
from fairlead_gateway.conversation.phrases import Phrases, normalize
from fairlead_gateway.conversation.token import ForgedState, Sealer
from fairlead_gateway.conversation.turn import Choice, ConversationState, Turn
from fairlead_operator.publish.compile import compile_rules

SHIPPED = compile_rules([], [], {}).tiers
CHOOSER = Chooser(SHIPPED)


class Conversation:
    """Turns of one conversation. Each turn passes its state to the next one in a token."""

    def __init__(self, chooser: Chooser = CHOOSER) -> None:
        self.chooser = chooser
        self.sealer = Sealer(b"key")
        self.token = ""

    def hear(self, text: str, *, number: int = 7, at: float = 1000.0, final: bool = True, queue: int = 0) -> Choice:
        turn = Turn(text=text, final=final, number=number, queue_depth=queue)
        choice, state = self.chooser.choose(turn, self.sealer.open(self.token), at)
        self.token = self.sealer.seal(state)
        return choice


@pytest.mark.parametrize(
    ("text", "number", "queue", "tier", "rule"),
    [
        ("hello there", 0, 0, "standard", "conversation"),
        ("hello there", 5, 0, "fast", "default"),
        ("do you remember the innkeeper", 5, 0, "standard", "keywords"),
        ("tell me everything you know about the conspiracy", 5, 0, "deep", "keywords"),
        ("tell me everything you know about the conspiracy", 5, 3, "fast", "queue"),
        ("take your time, who is he", 5, 3, "deep", "command"),
        ("keep it short: tell me everything you know", 5, 0, "fast", "command"),
        ("TAKE   YOUR, time!", 5, 0, "deep", "command"),
        ("take your timetable", 5, 0, "fast", "default"),
        ("", 5, 0, "fast", "default"),
    ],
)
def test_the_rules_go_in_their_order(text: str, number: int, queue: int, tier: str, rule: str) -> None:
    choice = Conversation().hear(text, number=number, queue=queue)
    assert (choice.tier, choice.rule) == (tier, rule)


def test_the_answer_names_the_phrase_that_decided_and_the_limit() -> None:
    choice = Conversation().hear("please compare them")
    assert (choice.matched, choice.limit_ms) == ("compar*", 4000)


def test_deep_words_do_not_ask_twice_within_half_a_minute() -> None:
    conversation = Conversation()
    assert conversation.hear("compare the two", number=3, at=100.0).tier == "deep"
    assert conversation.hear("compare the other two", number=4, at=129.0).tier == "fast"
    assert conversation.hear("compare the rest", number=5, at=160.0).tier == "deep"


def test_a_command_holds_for_three_turns_and_another_takes_its_place() -> None:
    conversation = Conversation()
    tiers = [conversation.hear("take your time" if n == 3 else "hm", number=n, at=n * 60.0).tier for n in range(3, 8)]
    assert tiers == ["deep", "deep", "deep", "fast", "fast"]
    conversation.hear("think carefully", number=9, at=900.0)
    assert conversation.hear("no, be quick", number=10, at=901.0).tier == "fast"
    assert conversation.hear("compare them", number=11, at=960.0).tier == "fast"


def test_a_growing_transcript_raises_the_tier_and_never_lowers_it() -> None:
    conversation = Conversation()
    text = "so do you remember what we decided and can you compare it with the plan for spring"
    tiers = [conversation.hear(text[:length], number=3, final=False).tier for length in range(len(text) + 1)]
    order = [["fast", "standard", "deep"].index(tier) for tier in tiers]
    assert order == sorted(order)
    assert set(tiers) == {"fast", "standard", "deep"}
    assert conversation.hear("so do you", number=3).tier == "deep"


def test_the_last_word_of_a_partial_transcript_may_still_be_growing() -> None:
    assert Conversation().hear("do you have any rules", final=False).tier == "fast"
    assert Conversation().hear("do you have any rules ", final=False).tier == "standard"


def test_short_turns_in_quick_succession_are_a_rapid_exchange() -> None:
    conversation = Conversation()
    rules = [conversation.hear("yes", number=n, at=100.0 + 2 * n).rule for n in range(1, 5)]
    assert rules == ["default", "default", "conversation", "conversation"]


def test_a_state_that_was_not_signed_here_is_refused() -> None:
    token = Sealer(b"theirs").seal(ConversationState(turn=3))
    for forged in (token, token[:-2] + "xx", "?", "A" * 5000):
        with pytest.raises(ForgedState):
            Sealer(b"ours").open(forged)


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("what did you say", ["what did you say"]),
        ("what did you say and what did he say", ["what did you say", "what did"]),
        ("find the news", ["find the", "the news"]),
        ("finder of the newsletter", []),
        ("THE NEWS, of what?", ["the news"]),
        ("sorting is what did it", ["what did", "sort*"]),
        ("", []),
    ],
)
def test_every_phrase_counts_but_where_a_longer_one_of_another_meaning_begins(text: str, matched: list[str]) -> None:
    phrases = Phrases([("what did", 1), ("what did you say", 0), ("the news", 1), ("find the", 2), ("sort*", 2)])
    assert [phrase for phrase, _ in phrases.find(normalize(text))] == matched


def test_of_several_phrases_the_one_that_begins_last_is_told() -> None:
    phrases = Phrases([("be brief", 0), ("think hard", 1)])
    text = normalize("think hard, be brief, no: think hard!")
    assert phrases.last(text, ["be brief", "think hard"]) == "think hard"
    assert phrases.last(normalize("think hard, be brief"), ["be brief", "think hard"]) == "be brief"


def test_without_phrases_nothing_is_found() -> None:
    assert Phrases([]).find("anything") == []


def test_a_phrase_that_cannot_be_used_is_reported_and_the_rest_is() -> None:
    selection = SHIPPED[0].selection.__class__(keywords=("a*", "!!", "slow*"))
    chooser = Chooser([Tier(name="deep", selection=selection), Tier(name="fast", max_latency_ms=1, default=True)])
    assert len(chooser.ignored) == 2
    assert Conversation(chooser).hear("slowly now").tier == "deep"


def test_a_tier_that_is_gone_is_not_held_on_to() -> None:
    state = ConversationState(turn=7, tier="gone", commanded="gone", commanded_until=9, answered={"gone": 1.0})
    choice, _ = CHOOSER.choose(Turn(text="hm", number=7), state, 2.0)
    assert (choice.tier, choice.rule) == ("fast", "default")
