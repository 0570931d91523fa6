"""Answer of the network probe, as a record, a verdict and a message. Pure."""

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
UNKNOWN_REASON_LIMIT: Final = 600
"""Maximum characters of the reason in a condition's message."""
NAME: Final = "fairlead-network-policies"
"""Name of the ConfigMap that stores the answer."""
WHEN_REPEATED: Final = (
    f"repeated after a day, or minutes after the ConfigMap {NAME} in the release's namespace is deleted"
)


@dataclass(frozen=True)
class Enforcement:
    """Whether NetworkPolicies are enforced."""

    incoming: bool | None = None
    """For connections to a pod; None if unknown."""
    outgoing: bool | None = None
    """For connections from a pod; None if unknown."""
    unknown_reason: str = ""
    """Why the answer is unknown, and what to do about it."""

    def of(self, direction: Direction) -> bool | None:
        """The answer for one direction."""
        return self.incoming if direction == "incoming" else self.outgoing

    def verdict(self) -> ConditionVerdict:
        """Verdict for the condition NetworkPolicyEnforced; False if policies are not enforced in either direction."""
        if self.incoming is False or self.outgoing is False:
            return ConditionVerdict(False, Cause.NETWORK_POLICY_NOT_ENFORCED, self._open_directions())
        if self.incoming and self.outgoing:
            sentence = "a NetworkPolicy blocked a probe in both directions"
            return ConditionVerdict(True, Cause.NETWORK_POLICY_ENFORCED, sentence)
        reason = self.unknown_reason or "no probe has finished yet"
        return ConditionVerdict(
            None, Cause.NETWORK_POLICY_NOT_PROBED, f"{reason[:UNKNOWN_REASON_LIMIT]}; {WHEN_REPEATED}"
        )

    def _open_directions(self) -> str:
        if not (self.incoming or self.outgoing):
            return (
                "a probe connected in spite of a NetworkPolicy in both directions: any pod of the cluster can connect "
                "to this server, and spec.network.egress has no effect"
            )
        if self.incoming:
            return "a probe connected in spite of a NetworkPolicy for egress: spec.network.egress has no effect"
        return "a probe connected in spite of a NetworkPolicy for ingress: any pod can connect to this server"


@dataclass(frozen=True)
class ProbeRecord:
    """An answer with the time of its probe, as stored in the ConfigMap."""

    began: datetime
    """Time at which the probe began."""
    answer: Enforcement
    interruptions: int = 0
    """Number of consecutive interrupted probes, the last of which began at `began`. `answer` is then the answer of an
    earlier probe.
    """

    def data(self) -> dict[str, str]:
        """The `data` of the ConfigMap."""
        data = {"checkedAt": self.began.isoformat(timespec="seconds"), "message": self.answer.unknown_reason}
        data |= {"unended": str(self.interruptions)} if self.interruptions else {}
        return data | {str(direction): WORDS[self.answer.of(direction)] for direction in DIRECTIONS}

    @classmethod
    def read(cls, data: Mapping[str, str]) -> ProbeRecord | None:
        """Read the `data` of a ConfigMap; None if it is invalid."""
        values = {word: value for value, word in WORDS.items()}
        try:
            began = datetime.fromisoformat(data["checkedAt"])
            incoming, outgoing = (values[data[direction]] for direction in DIRECTIONS)
            interruptions = int(data.get("unended", "0"))
        except (KeyError, ValueError):
            return None
        if began.tzinfo is None:
            return None
        return cls(began, Enforcement(incoming, outgoing, data.get("message", "")), interruptions)


def parse_answer(line: str) -> Enforcement | None:
    """The answer in the client pod's termination message (`incoming=held outgoing=open`); None if the message has no
    answer.
    """
    states = dict(word.split("=", 1) for word in line.split() if "=" in word)
    values = {"held": True, "open": False}
    incoming, outgoing = (values.get(states.get(direction, "")) for direction in DIRECTIONS)
    return None if incoming is None or outgoing is None else Enforcement(incoming, outgoing)
