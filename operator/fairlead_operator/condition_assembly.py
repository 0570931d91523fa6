"""Builds the conditions of all kinds from verdicts: reason, message with advice, transition time, and `Ready`. Pure.

`Ready` is False if a condition that it depends on is False, else Unknown if one is Unknown, else True. A condition's
`lastTransitionTime` changes only with its status, so that an unchanged resource needs no write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fairlead_api.remedies import Form, in_words_of, remedy
from fairlead_api.v1alpha1.causes import cause_of, sentence
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import READY_DEPENDS_ON, ConditionType, Status
from fairlead_operator.ports import ConditionVerdict

_NOTHING_PRINTED: Final = re.compile(r"it printed nothing$|^(?!.* exited with code ).* cannot be started[: ]")
"""Parts of messages about a process that printed nothing, or that never ran."""
_LOG_HINT: Final = re.compile(r"; fairlead logs \S+ shows what it printed\.$")
MESSAGE_LIMIT: Final = 2000
"""Maximum characters of a condition's message."""


@dataclass(frozen=True)
class AdviceContext:
    """Facts about a server that select the wording of advice and the commands in it."""

    form: Form = "cluster"
    """Kind of manifest that declares the server."""
    transport: str = ""
    server: str = ""
    """`NAMESPACE/NAME` of the server."""


def conditions(
    verdicts: Mapping[ConditionType, ConditionVerdict | None],
    previous: list[Condition],
    generation: int,
    now: datetime,
    advice_context: AdviceContext | None = None,
) -> list[Condition]:
    """The conditions of a resource, with `Ready` at the end; conditions without a verdict are absent.

    `previous` are the conditions in the resource's stored status.
    """
    context = advice_context or AdviceContext()
    present_verdicts = {kind: verdict for kind, verdict in verdicts.items() if verdict is not None}
    present_verdicts[ConditionType.READY] = ready_verdict(present_verdicts)
    previous_by_type = {condition.type: condition for condition in previous}
    return [
        _condition(kind, verdict, previous_by_type.get(kind), generation, now, _with_advice(verdict, context))
        for kind, verdict in present_verdicts.items()
    ]


def ready_verdict(verdicts: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    """The verdict for Ready: of the verdicts that it depends on, the first that is False, else the first that is
    Unknown, else the last.
    """
    dependencies = [verdicts[kind] for kind in READY_DEPENDS_ON if kind in verdicts]
    for ok in (False, None):
        for verdict in dependencies:
            if verdict.ok is ok:
                return verdict
    return dependencies[-1]


def verdict_of(condition: Condition | None) -> ConditionVerdict | None:
    """The verdict from which a stored condition was made; None without a condition, or if its cause is unknown, because
    another version of the operator wrote it.
    """
    if condition is None:
        return None
    cause, message = cause_of(condition)
    ok = {"True": True, "False": False}.get(condition.status)
    return None if cause is None else ConditionVerdict(ok, cause, message)


def _condition(
    kind: ConditionType,
    verdict: ConditionVerdict,
    previous: Condition | None,
    generation: int,
    now: datetime,
    message: str,
) -> Condition:
    status: Status = "Unknown" if verdict.ok is None else "True" if verdict.ok else "False"
    unchanged = previous is not None and previous.status == status
    changed_at = previous.last_transition_time if previous is not None and unchanged else now.replace(microsecond=0)
    return Condition(
        type=kind,
        status=status,
        reason=verdict.reason,
        message=message,
        observed_generation=generation,
        last_transition_time=changed_at,
    )


def _with_advice(verdict: ConditionVerdict, context: AdviceContext) -> str:
    """The message with advice at its end. A message that is too long is cut before the advice. Unknown verdicts have no
    advice.
    """
    namespace, _, name = context.server.partition("/")
    server_names = {"SERVER": context.server, "NAMESPACE": namespace, "NAME": name} if name else {}
    names = {**server_names, **verdict.names}
    advice = (
        remedy(verdict.fault or verdict.cause, context.form, context.transport, names) if verdict.ok is not None else ""
    )
    message = sentence(verdict.cause, in_words_of(verdict.message, context.form))
    if _NOTHING_PRINTED.search(message):
        advice = _LOG_HINT.sub(".", advice)
    if not advice or message.endswith(advice):
        return message[:MESSAGE_LIMIT]
    beginning = message[: MESSAGE_LIMIT - len(advice) - 2].rstrip()
    return f"{beginning}{'' if beginning.endswith(('.', '!', '?')) else '.'} {advice}"
