"""The labeled utterances of `tests/golden/conversation`, and how many of them a chooser gets right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from fairlead_gateway.conversation.choose import Chooser
from fairlead_gateway.conversation.turn import ConversationState, Turn

FOLDER = Path(__file__).resolve().parents[1] / "golden/conversation"
EVERY = 3
"""One of so many utterances is held out from tuning."""
SETS = ("looked at", "held out", "hard", "ordinary", "ordinary, aside", "unseen")
"""Sets of utterances: those by which phrases were tuned, and those held out from tuning; later ones that should defeat
the phrases, which were then tuned by them; those of a second author, half of them held out; and those of a third person
who did not know the phrases, by which they are never tuned."""


@dataclass(frozen=True)
class Utterance:
    """Words of a user, in the parts in which they become known, and the tier that fits after each part."""

    heard: tuple[str, ...]
    tiers: tuple[str, ...]
    kind: str
    """One of SETS."""


def utterances() -> list[Utterance]:
    """All utterances, in the order of the files."""
    written = [
        _utterance(line, SETS[index % EVERY == EVERY - 1]) for index, line in enumerate(_lines("utterances.txt"))
    ]
    others = {"ordinary": "ordinary.txt", "ordinary, aside": "ordinary-aside.txt", "unseen": "unseen.txt"}
    return written + [_utterance(line, kind) for kind, name in others.items() for line in _lines(name)]


def sentences(name: str = "classes.txt") -> dict[str, list[str]]:
    """Sentences per class: `past`, `place` and `rule`, which ask for a look-up, and `ordinary`, which ask for none."""
    texts: dict[str, list[str]] = {}
    for line in _lines(name):
        kind, _, text = line.partition("\t")
        texts.setdefault(kind, []).append(text)
    return texts


def is_raised(chooser: Chooser, text: str) -> bool:
    """Whether a sentence in the middle of a conversation gets another tier than the fastest."""
    return chooser.choose(Turn(text=text, number=7), ConversationState(), 1000.0)[0].tier != chooser.tiers[0].name


def _lines(name: str) -> list[str]:
    return [line for line in (FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]


def _utterance(line: str, kind: str) -> Utterance:
    if line.startswith("hard\t"):
        kind, line = "hard", line.removeprefix("hard\t")
    labels, _, text = line.partition("\t")
    parts = text.split(" | ")
    tiers = tuple(labels.split(" > "))
    assert len(tiers) == len(parts), line
    return Utterance(tuple(accumulate(parts, lambda before, part: f"{before} {part}")), tiers, kind)


def choose_tiers(chooser: Chooser, utterance: Utterance) -> list[str]:
    """The chosen tier after each part, in the middle of a conversation without earlier requests."""
    state, tiers = ConversationState(), []
    for text in utterance.heard:
        turn = Turn(text=text, final=text is utterance.heard[-1], number=7)
        choice, state = chooser.choose(turn, state, 1000.0)
        tiers.append(choice.tier)
    return tiers


@dataclass(frozen=True)
class Accuracy:
    """Number of right choices and of all choices, by the right tier."""

    right: Counter[str]
    all: Counter[str]

    def share(self, tier: str | None = None) -> float:
        """Share of right choices for one tier, or for all tiers."""
        return self.right[tier] / self.all[tier] if tier else self.right.total() / self.all.total()

    def __str__(self) -> str:
        return ", ".join(f"{tier} {self.right[tier]}/{count}" for tier, count in sorted(self.all.items()))


def accuracy(chooser: Chooser, kind: str) -> Accuracy:
    """Accuracy over every part of every utterance in the set `kind`."""
    right, every = Counter[str](), Counter[str]()
    for utterance in utterances():
        if utterance.kind == kind:
            every.update(utterance.tiers)
            got = choose_tiers(chooser, utterance)
            right.update(tier for tier, answer in zip(utterance.tiers, got, strict=True) if tier == answer)
    return Accuracy(right, every)
