"""Builds the conditions of all kinds from verdicts: reason, message with advice, transition time, and `Ready`. Pure.

`Ready` is False if a condition that it depends on is False, else Unknown if one is Unknown, else True. A condition's
`lastTransitionTime` changes only with its status, so that an unchanged resource needs no write.
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
    """Form of the manifest, transport and server, which select the wording of advice and the commands in it."""

    form: Form = "cluster"
    transport: str = ""
    server: str = ""
    """As `namespace/name`."""


def conditions(
    verdicts: Mapping[ConditionType, ConditionVerdict | None],
    shown: list[Condition],
    generation: int,
    now: datetime,
    words: AdviceWords | None = None,
) -> list[Condition]:
    """The conditions of a resource, with `Ready` at the end; those without a verdict are absent.

    `shown` are the resource's present conditions.
    """
    judged = {kind: verdict for kind, verdict in verdicts.items() if verdict is not None}
    judged[ConditionType.READY] = ready(judged)
    before = {condition.type: condition for condition in shown}
    return [
        _condition(kind, verdict, before.get(kind), generation, now, _with_advice(verdict, words or AdviceWords()))
        for kind, verdict in judged.items()
    ]


def ready(verdicts: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    """The verdict for Ready: the first False one it depends on, else the first Unknown one, else the last one."""
    dependents = [verdicts[kind] for kind in READY_DEPENDS_ON if kind in verdicts]
    for worst in (False, None):
        for verdict in dependents:
            if verdict.ok is worst:
                return verdict
    return dependents[-1]


def as_shown(condition: Condition | None) -> ConditionVerdict | None:
    """The verdict of a stored condition; None without a condition, or if another release wrote its cause."""
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
    unchanged = before is not None and before.status == status
    changed_at = before.last_transition_time if before is not None and unchanged else now.replace(microsecond=0)
    return Condition(
        type=kind,
        status=status,
        reason=verdict.reason,
        message=message,
        observed_generation=generation,
        last_transition_time=changed_at,
    )


def _with_advice(verdict: ConditionVerdict, words: AdviceWords) -> str:
    """The message with advice at its end, which is kept when a long message is cut. Unknown verdicts have no advice."""
    namespace, _, name = words.server.partition("/")
    own = {"SERVER": words.server, "NAMESPACE": namespace, "NAME": name} if name else {}
    names = {**own, **verdict.names}
    advice = (
        remedy(verdict.fault or verdict.cause, words.form, words.transport, names) if verdict.ok is not None else ""
    )
    message = sentence(verdict.cause, in_words_of(verdict.message, words.form))
    if not advice or message.endswith(advice):
        return message[:MESSAGE_LIMIT]
    beginning = message[: MESSAGE_LIMIT - len(advice) - 2].rstrip()
    return f"{beginning}{'' if beginning.endswith(('.', '!', '?')) else '.'} {advice}"
