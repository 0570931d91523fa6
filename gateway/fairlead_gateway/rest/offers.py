"""What of the visible tools a model is offered, and in which form: filter, budget, conversion.

Used by the resources `tools` and `plan`, in the worker. The limits are decided in `budget.plan`, the forms in
`formats`; here they are put together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from fairlead_gateway.budget.conversation import Tokens
from fairlead_gateway.budget.models import MAX_WINDOW, Window
from fairlead_gateway.budget.outcome import Cut, Numbers, Plan, Refused
from fairlead_gateway.budget.plan import Candidate, Limits, Model, plan
from fairlead_gateway.budget.shorten import shortened
from fairlead_gateway.formats.between import Conversion, array_of
from fairlead_gateway.formats.format import Format, JsonObject, Options
from fairlead_gateway.formats.names import Names
from fairlead_gateway.formats.registry import MCP
from fairlead_gateway.rest.plane import Plane
from fairlead_gateway.rest.problems import OVER_BUDGET, Problem
from fairlead_gateway.rest.shelf import Entry, Shelf
from fairlead_gateway.rest.worker import STRIDE, breathing

_NO_CONVERSATION: Final = Tokens(0, 0)


class Offer(Conversion, frozen=True, rename="camel", omit_defaults=True):
    """Visible tools as they stand in a provider's request, and those that were left out."""

    offline: tuple[str, ...] = ()
    """Tools left out because their server is offline."""
    cut: tuple[Cut, ...] = ()
    """Tools left out because of a limit, and which."""
    numbers: Numbers | None = None
    """Where the tokens go, where a budget was asked for."""


def candidates(plane: Plane, entries: Sequence[Entry], pinned: Collection[str] = ()) -> list[Candidate]:
    """Entries with what they cost; new definitions are counted."""
    sizes = plane.sizes()
    found = []
    for entry in breathing(entries):
        size = sizes.of(entry.definition, entry.key.encode())
        is_pinned = entry.name in pinned or entry.id in pinned
        found.append(Candidate(entry.name, size.tokens, size.short, is_pinned))
    return found


def within(plane: Plane, entries: Sequence[Entry], format_: Format, model: str | None, limits: Limits) -> Plan:
    """Which of the entries fit a model (any, with None) and limits, without a conversation. Raises Problem."""
    window = plane.windows.window(model) if model is not None else Window(MAX_WINDOW, source="none")
    limit = Model(model or "any", window, format_.name, format_.max_tools if model is not None else None)
    counted = candidates(plane, entries)
    return fitting(plan([limit], counted, _NO_CONVERSATION, limits, plane.sizes().counter.name))


def fitting(outcome: Plan | Refused) -> Plan:
    """The plan. Raises Problem for a refusal, with what would fit."""
    if isinstance(outcome, Plan):
        return outcome
    raise Problem(OVER_BUDGET, outcome.reason, would_fit=outcome.would_fit, numbers=outcome.numbers)


def converted(
    plane: Plane,
    shelf: Shelf,
    entries: Sequence[Entry],
    format_: Format,
    options: Options,
    *,
    short: Collection[str] = (),
    extra: Sequence[JsonObject] = (),
) -> Offer:
    """Entries in a format; those in `short` with shortened descriptions, and `extra` definitions of the caller's
    behind them.
    """
    definitions = [shortened(entry.decoded) if entry.name in short else entry.decoded for entry in entries]
    hashes = [f"{entry.key} shortened" if entry.name in short else entry.key for entry in entries]
    given = [str(tool["name"]) for tool in extra]
    if format_.name == MCP:
        names = Names.unchanged([*shelf.by_name, *given])
    else:
        names = Names([*shelf.by_name, *given]) if extra else shelf.names
        _warm(plane, format_, definitions, options, hashes)
    found = plane.conversions.convert(format_, definitions, options, hashes=hashes, names=names)
    theirs = format_.convert(extra, options, names)
    member, tools = array_of(format_.request(found.tools + theirs.tools))
    wanted = [*(entry.name for entry in entries), *given]
    shown = {names.safe(name): name for name in wanted}
    return Offer(format_.name, member, tools, shown, found.report + theirs.report, format_.max_tools)


def _warm(
    plane: Plane, format_: Format, tools: Sequence[Mapping[str, Any]], options: Options, hashes: Sequence[str]
) -> None:
    """Convert a few at a time, with a breath in between; what is known already costs next to nothing."""
    for start in breathing(range(0, len(tools), STRIDE)):
        part = slice(start, start + STRIDE)
        plane.conversions.convert(format_, tools[part], options, hashes=hashes[part])
