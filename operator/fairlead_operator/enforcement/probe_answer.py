"""The answer of a probe of the network: as a record, as a verdict and in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.ports import ConditionVerdict

Direction = Literal["incoming", "outgoing"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("incoming", "outgoing")
WORDS: Final = {True: "Enforced", False: "NotEnforced", None: "Unknown"}
UNANSWERED_LIMIT: Final = 600
NAME: Final = "fairlead-network-policies"
"""The ConfigMap that keeps the answer."""
AGAIN: Final = f"tried again after a day, or minutes after the ConfigMap {NAME} of the release's namespace is deleted"


@dataclass(frozen=True)
class Enforcement:
    """Whether NetworkPolicies bind connections to a pod and from it; None: not known."""

    incoming: bool | None = None
    outgoing: bool | None = None
    unanswered: str = ""
    """Why it is not known, and what to do about that."""

    def of(self, direction: Direction) -> bool | None:
        """The answer for one direction."""
        return self.incoming if direction == "incoming" else self.outgoing

    def verdict(self) -> ConditionVerdict:
        """False where either direction is open: then policies do not hold what they say."""
        if self.incoming is False or self.outgoing is False:
            return ConditionVerdict(False, Cause.NETWORK_POLICY_NOT_ENFORCED, self._open_directions())
        if self.incoming and self.outgoing:
            sentence = "a NetworkPolicy held a probe back, both ways"
            return ConditionVerdict(True, Cause.NETWORK_POLICY_ENFORCED, sentence)
        why = self.unanswered or "no probe has ended yet"
        return ConditionVerdict(None, Cause.NETWORK_POLICY_NOT_PROBED, f"{why[:UNANSWERED_LIMIT]}; {AGAIN}")

    def _open_directions(self) -> str:
        if not (self.incoming or self.outgoing):
            return (
                "a probe connected past a NetworkPolicy, both ways: any pod of the cluster can connect to this server, "
                "and spec.network.egress has no effect"
            )
        if self.incoming:
            return "a probe connected past the egress of a NetworkPolicy: spec.network.egress has no effect"
        return (
            "a probe connected past the ingress of a NetworkPolicy: any pod of the cluster can connect to this server"
        )


@dataclass(frozen=True)
class ProbeRecord:
    """An answer with the time of its probe, as a ConfigMap keeps it."""

    checked: datetime
    answer: Enforcement
    unended: int = 0
    """Probes in a row that began, the last at `checked`, and of which no end is known; `answer` is older than these."""

    def data(self) -> dict[str, str]:
        """Members of the ConfigMap."""
        data = {"checkedAt": self.checked.isoformat(timespec="seconds"), "message": self.answer.unanswered}
        data |= {"unended": str(self.unended)} if self.unended else {}
        return data | {str(direction): WORDS[self.answer.of(direction)] for direction in DIRECTIONS}

    @classmethod
    def read(cls, data: Mapping[str, str]) -> ProbeRecord | None:
        """None for what no operator wrote."""
        values = {word: value for value, word in WORDS.items()}
        try:
            checked = datetime.fromisoformat(data["checkedAt"])
            incoming, outgoing = (values[data[direction]] for direction in DIRECTIONS)
            unended = int(data.get("unended", "0"))
        except (KeyError, ValueError):
            return None
        if checked.tzinfo is None:
            return None
        return cls(checked, Enforcement(incoming, outgoing, data.get("message", "")), unended)


def parse_answer(line: str) -> Enforcement | None:
    """The answer in the last words of the client's pod (`incoming=held outgoing=open`); None where there is none."""
    states = dict(word.split("=", 1) for word in line.split() if "=" in word)
    values = {"held": True, "open": False}
    incoming, outgoing = (values.get(states.get(direction, "")) for direction in DIRECTIONS)
    return None if incoming is None or outgoing is None else Enforcement(incoming, outgoing)
