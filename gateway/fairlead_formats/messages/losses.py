"""Reports of what a message holds beside calls and results, and another format does not.

Pure module. Paths are into the request of a conversion: `/message/…` and `/results/…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from fairlead_formats.messages.base import MAX_LOSSES, SERVER_TOOL, TEXT, THINKING, AnswerPart, MessageFormat, Part
from fairlead_formats.messages.call import CUSTOM, ModelCall, ResultLoss
from fairlead_formats.tool_format import Action

_WHY: Final = {
    THINKING: "thinking is for the model that thought it",
    SERVER_TOOL: "the provider ran this tool itself; no other format has a place for it",
}


def losses_of_message(
    parts: Sequence[Part], calls: Sequence[ModelCall], target: MessageFormat
) -> tuple[ResultLoss, ...]:
    """Losses among a message's parts, which the target does not hold as they were. `calls`: those of the parts, in
    their order.
    """
    return _limit(_of_parts(parts, calls, target), "/message")


def losses_of_answers(answers: Iterable[AnswerPart]) -> tuple[ResultLoss, ...]:
    """Losses among the messages behind a model's: their parts beside results."""
    return _limit(_of_answers(answers), "/results")


def _of_parts(parts: Sequence[Part], calls: Sequence[ModelCall], target: MessageFormat) -> Iterator[ResultLoss]:
    every = iter(calls)
    after, texts = False, 0
    for part in parts:
        path = f"/message{part.path}"
        call = next(every, None) if part.draft is not None else None
        ident = call.id if call is not None else ""
        for name in part.extras:
            yield ResultLoss(ident, f"{path}/{name}", name, Action.DROPPED, "only the format of the message has it")
        if call is not None:
            after = True
            yield from _of_call(call, path, target)
        elif part.what == TEXT:
            texts += bool(part.text)
            yield from _of_text(part, path, target, moved=after or texts > 1)
        else:
            why = _WHY.get(part.what, "neither text nor a call: no other format has a place for it")
            yield ResultLoss("", path, part.what, Action.DROPPED, why)


def _of_call(call: ModelCall, path: str, target: MessageFormat) -> Iterator[ResultLoss]:
    if not call.valid:
        yield ResultLoss(call.id, path, "call", Action.DROPPED, "it cannot be read: see `invalid`")
    elif call.kind == CUSTOM and not target.holds_freeform:
        yield ResultLoss(call.id, path, "call", Action.REWRITTEN, "freeform: its text is the argument `input`")


def _of_text(part: Part, path: str, target: MessageFormat, *, moved: bool) -> Iterator[ResultLoss]:
    if not part.text:
        return
    if not target.holds_text:
        yield ResultLoss("", path, TEXT, Action.DROPPED, "the format has no place for text beside calls")
    elif moved or not part.text.strip():
        yield ResultLoss("", path, TEXT, Action.REWRITTEN, "all text became one, before the calls")


def _of_answers(answers: Iterable[AnswerPart]) -> Iterator[ResultLoss]:
    for answer in answers:
        path = f"/results{answer.path}"
        ident = answer.result.id if answer.result is not None else ""
        for name in answer.extras:
            yield ResultLoss(ident, f"{path}/{name}", name, Action.DROPPED, "only the format of the results has it")
        if answer.result is None:
            yield ResultLoss("", path, "block", Action.DROPPED, "it is the result of no call")


def _limit(losses: Iterator[ResultLoss], path: str) -> tuple[ResultLoss, ...]:
    first = tuple(islice(losses, MAX_LOSSES))
    if next(losses, None) is None:
        return first
    return (*first, ResultLoss("", path, "block", Action.DROPPED, f"more than {MAX_LOSSES} parts, which are not named"))
