"""Conditions of all kinds, out of verdicts: reason, advice, time of transition, and `Ready`. Pure.

`Ready` is derived: False beats Unknown beats True. A condition's `lastTransitionTime` moves only when its status does,
so that an unchanged resource has an unchanged status and costs no write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fairlead_api.remedies import Form, in_words_of, remedy
from fairlead_api.v1alpha1.causes import cause_of, sentence
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import READY_DEPENDS_ON, ConditionType, Status
from fairlead_operator.ports import ConditionVerdict

MESSAGE_LIMIT: Final = 2000


@dataclass(frozen=True)
class AdviceWords:
    """Form, transport and server that choose the words of advice, and the commands in it."""

    form: Form = "cluster"
    transport: str = ""
    server: str = ""
    """As `namespace/name`."""


def conditions(
    given: Mapping[ConditionType, ConditionVerdict | None],
    shown: list[Condition],
    generation: int,
    now: datetime,
    words: AdviceWords | None = None,
) -> list[Condition]:
    """The conditions of a resource with `Ready` behind them; those without a verdict are absent. `shown` are those that
    it has now.
    """
    judged = {kind: verdict for kind, verdict in given.items() if verdict is not None}
    judged[ConditionType.READY] = ready(judged)
    before = {condition.type: condition for condition in shown}
    return [
        _condition(kind, verdict, before.get(kind), generation, now, _with_advice(verdict, words or AdviceWords()))
        for kind, verdict in judged.items()
    ]


def ready(given: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    """The first dependent that is False, else the first that is Unknown, else True."""
    dependents = [given[kind] for kind in READY_DEPENDS_ON if kind in given]
    for wanted in (False, None):
        for verdict in dependents:
            if verdict.ok is wanted:
                return verdict
    return dependents[-1]


def as_shown(condition: Condition | None) -> ConditionVerdict | None:
    """The verdict that a condition was made from; None where there is none, or none of this release."""
    if condition is None:
        return None
    cause, message = cause_of(condition)
    ok = {"True": True, "False": False}.get(condition.status)
    return None if cause is None else ConditionVerdict(ok, cause, message)


def _condition(
    kind: ConditionType,
    verdict: ConditionVerdict,
    before: Condition | None,
    generation: int,
    now: datetime,
    message: str,
) -> Condition:
    status: Status = "Unknown" if verdict.ok is None else "True" if verdict.ok else "False"
    moved = before is None or before.status != status
    return Condition(
        type=kind,
        status=status,
        reason=verdict.reason,
        message=message,
        observed_generation=generation,
        last_transition_time=now.replace(microsecond=0) if before is None or moved else before.last_transition_time,
    )


def _with_advice(verdict: ConditionVerdict, words: AdviceWords) -> str:
    """The message with what to do about it, which survives where a long one is cut; what is still open needs none."""
    namespace, _, name = words.server.partition("/")
    own = {"SERVER": words.server, "NAMESPACE": namespace, "NAME": name} if name else {}
    names = {**own, **verdict.names}
    advice = remedy(verdict.cause, words.form, words.transport, names) if verdict.ok is not None else ""
    message = sentence(verdict.cause, in_words_of(verdict.message, words.form))
    if not advice or message.endswith(advice):
        return message[:MESSAGE_LIMIT]
    beginning = message[: MESSAGE_LIMIT - len(advice) - 2].rstrip()
    return f"{beginning}{'' if beginning.endswith(('.', '!', '?')) else '.'} {advice}"
