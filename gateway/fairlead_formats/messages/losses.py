"""Reports of the parts besides calls and results that a conversion of messages loses, because the target lacks them.

Pure module. Paths are JSON Pointers into the request of a conversion: `/message/…` and `/results/…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from fairlead_formats.messages.base import MAX_LOSSES, SERVER_TOOL, TEXT, THINKING, AnswerPart, MessageFormat, Part
from fairlead_formats.messages.call import CUSTOM, ModelCall, ResultLoss
from fairlead_formats.tool_format import Action

_REASONS: Final = {
    THINKING: "reasoning can only be returned to the model that produced it",
    SERVER_TOOL: "the provider ran this tool itself; no other format has a place for it",
}


def losses_of_message(
    parts: Sequence[Part], calls: Sequence[ModelCall], target: MessageFormat
) -> tuple[ResultLoss, ...]:
    """Losses among a message's parts in the target format. `calls` are the calls of those parts, in order."""
    return _limit(_part_losses(parts, calls, target), "/message")


def losses_of_answers(answers: Iterable[AnswerPart]) -> tuple[ResultLoss, ...]:
    """Losses among the messages that follow a model's message: parts other than results."""
    return _limit(_answer_losses(answers), "/results")


def _part_losses(parts: Sequence[Part], calls: Sequence[ModelCall], target: MessageFormat) -> Iterator[ResultLoss]:
    remaining_calls = iter(calls)
    after_call, texts = False, 0
    for part in parts:
        path = f"/message{part.path}"
        call = next(remaining_calls, None) if part.draft is not None else None
        ident = call.id if call is not None else ""
        for name in part.extras:
            yield ResultLoss(ident, f"{path}/{name}", name, Action.DROPPED, "only the message's format has this member")
        if call is not None:
            after_call = True
            yield from _call_losses(call, path, target)
        elif part.what == TEXT:
            texts += bool(part.text)
            yield from _text_losses(part, path, target, moved=after_call or texts > 1)
        else:
            why = _REASONS.get(part.what, "neither text nor a call: no other format has a place for it")
            yield ResultLoss("", path, part.what, Action.DROPPED, why)


def _call_losses(call: ModelCall, path: str, target: MessageFormat) -> Iterator[ResultLoss]:
    if not call.valid:
        yield ResultLoss(call.id, path, "call", Action.DROPPED, "the call is invalid: `invalid` has the reason")
    elif call.kind == CUSTOM and not target.holds_freeform:
        yield ResultLoss(call.id, path, "call", Action.REWRITTEN, "the text of the custom call became argument `input`")


def _text_losses(part: Part, path: str, target: MessageFormat, *, moved: bool) -> Iterator[ResultLoss]:
    if not part.text:
        return
    if not target.holds_text:
        yield ResultLoss("", path, TEXT, Action.DROPPED, "the format has no place for text next to calls")
    elif moved or not part.text.strip():
        yield ResultLoss("", path, TEXT, Action.REWRITTEN, "all text was joined before the calls")


def _answer_losses(answers: Iterable[AnswerPart]) -> Iterator[ResultLoss]:
    for answer in answers:
        path = f"/results{answer.path}"
        ident = answer.result.id if answer.result is not None else ""
        for name in answer.extras:
            yield ResultLoss(ident, f"{path}/{name}", name, Action.DROPPED, "only the results' format has this member")
        if answer.result is None:
            yield ResultLoss("", path, "block", Action.DROPPED, "the part is not the result of a call")


def _limit(losses: Iterator[ResultLoss], path: str) -> tuple[ResultLoss, ...]:
    first_losses = tuple(islice(losses, MAX_LOSSES))
    if next(losses, None) is None:
        return first_losses
    return (
        *first_losses,
        ResultLoss("", path, "block", Action.DROPPED, f"only the first {MAX_LOSSES} losses are listed"),
    )
