"""Chooses the visible tools that a model is offered, and converts them: filter, budget, conversion.

Runs in the worker. The limits are decided in `budget.plan`, the forms in
`formats`; here they are put together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.names import Names
from fairlead_formats.registry import MCP
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import Candidate
from fairlead_formats.tokens.models import MAX_WINDOW, ContextWindow
from fairlead_formats.tokens.outcome import Cut, Numbers, Plan, PlanRefused
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import PlanLimits, RouteModel
from fairlead_formats.tokens.shorten import shorten
from fairlead_formats.tool_format import Format, Options, array_of
from fairlead_formats.tools.between import Conversion
from fairlead_formats.tools.definitions import ToolFormat
from fairlead_gateway.policy.hidden_tools_notice import HiddenTools
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_offers.conversion.jobs import RawTool
from fairlead_offers.models.model_facts import ModelFacts
from fairlead_offers.plan.caller_tools import CallerTools, offered_names
from fairlead_offers.problems import OVER_BUDGET, Problem
from fairlead_offers.workers.heavy_work import STRIDE, HeavyWork, breathing

_NO_CONVERSATION: Final = ConversationTokens(0, 0)
NOTHING: Final = CallerTools()
FEW: Final = 64
"""New definitions that are converted in this process, in about three milliseconds."""
_encode: Final = msgspec.json.Encoder().encode


class OfferedTools(Conversion, frozen=True, rename="camel", omit_defaults=True):
    """Visible tools as they stand in a provider's request, and those that were left out."""

    offline: tuple[str, ...] = ()
    """Tools left out because their server is offline."""
    cut: tuple[Cut, ...] = ()
    """Tools left out because of a limit, and which."""
    numbers: Numbers | None = None
    """Where the tokens go, where a budget was asked for."""
    hidden: HiddenTools | None = None
    """Tools that policies allow and the tier does not show; absent where there is none."""
    own: tuple[str, ...] = ()
    """Names in `tools` that are the caller's own: `/v1/tool-calls` hands their calls back."""
    matched: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Names of the caller's definitions that mean a tool of the gateway, to that tool."""


async def candidates(
    work: HeavyWork, entries: Sequence[VisibleTool], pinned: Collection[str] = (), own: CallerTools = NOTHING
) -> list[Candidate]:
    """The caller's tools, which are never cut, and entries, with what they cost. In steps only."""
    theirs = {hash_of(raw): (tool["name"], raw) for tool in own.tools for raw in (_encode(tool),)}
    definitions = {entry.key.encode(): entry.definition for entry in entries}
    sizes = await work.count(definitions | {key: raw for key, (_, raw) in theirs.items()})
    priced = [Candidate(name, sizes.of(raw, key).tokens, pinned=True) for key, (name, raw) in theirs.items()]
    for entry in breathing(entries):
        size = sizes.of(entry.definition, entry.key.encode())
        is_pinned = entry.pinned or entry.name in pinned or entry.id in pinned
        priced.append(Candidate(entry.name, size.tokens, size.short, is_pinned))
    return priced


def single_model(models: ModelFacts, format_: Format, name: str | None) -> RouteModel:
    """A model as the only one that tools have to fit; with None any model, whose window has no bound."""
    if name is None:
        return RouteModel("any", ContextWindow(MAX_WINDOW, source="none"), format_.name, None)
    return RouteModel(name or "any", models.windows.window(name), format_.name, format_.max_tools)


async def fit_tools(
    work: HeavyWork,
    entries: Sequence[VisibleTool],
    model: RouteModel,
    limits: PlanLimits,
    own: CallerTools = NOTHING,
) -> Plan:
    """The entries that fit a model and limits, beside the caller's tools and without a conversation. In steps only.
    Raises Problem.
    """
    counted = await candidates(work, entries, own=own)
    return fitting(plan([model], counted, _NO_CONVERSATION, limits, work.sizes.counter.name))


def fitting(outcome: Plan | PlanRefused) -> Plan:
    """The plan. Raises Problem for a refusal, with what would fit."""
    if isinstance(outcome, Plan):
        return outcome
    raise Problem(OVER_BUDGET, outcome.reason, would_fit=outcome.would_fit, numbers=outcome.numbers)


async def convert_tools(
    work: HeavyWork,
    visible: VisibleTools,
    entries: Sequence[VisibleTool],
    format_: Format,
    options: Options,
    *,
    short: Collection[str] = (),
    own: CallerTools = NOTHING,
) -> OfferedTools:
    """Entries in a format; those in `short` with shortened descriptions, and the caller's tools behind them. In steps
    only.
    """
    definitions, hashes = await _warm(work, format_, entries, short, options)
    names = offered_names(format_.name, visible, own) if own.tools or format_.name == MCP else visible.names
    unlisted = [entry.name for entry in entries if entry.name not in names]
    names = Names.extend(names, unlisted) if unlisted else names
    conversion = work.conversions.convert(format_, definitions, options, hashes=hashes, names=names)
    report, properties = own.report + conversion.report, conversion.properties
    if isinstance(format_, ToolFormat) and format_.shares_form_with(own.format):
        member, tools = format_.place_tools(conversion.tools, own.untouched(format_, names))
    else:
        theirs = format_.convert(own.tools, options, names)
        member, tools = array_of(format_.request(conversion.tools + theirs.tools))
        report += own.lacking + theirs.report
        properties = {**properties, **theirs.properties}
    given = [tool["name"] for tool in own.tools]
    same = own.names_in(format_, names)
    shown = {names.safe(entry.name): entry.name for entry in entries} | {same[name]: name for name in given}
    return OfferedTools(
        format_.name,
        member,
        tools,
        shown,
        report,
        properties,
        format_.max_tools,
        own=tuple(same[name] for name in given),
        matched=own.matched,
    )


async def _warm(
    work: HeavyWork, format_: Format, entries: Sequence[VisibleTool], short: Collection[str], options: Options
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Definitions and hashes of entries, with their conversions kept: many that are new are converted in a process, a
    few here, with a breath in between. In steps only.
    """
    hashes = [f"{entry.key} shortened" if entry.name in short else entry.key for entry in entries]
    new = [index for index, key in enumerate(hashes) if not work.conversions.has(format_, options, key)]
    if len(new) > FEW and format_.name != MCP:
        raws = [RawTool(entries[i].name, Raw(entries[i].definition), entries[i].name in short) for i in new]
        await work.prepare(format_, options, {hashes[i]: raw for i, raw in zip(new, raws, strict=True)})
    tools = [shorten(entry.decoded) if entry.name in short else entry.decoded for entry in entries]
    for start in breathing(range(0, len(tools), STRIDE)) if new and format_.name != MCP else ():
        part = slice(start, start + STRIDE)
        work.conversions.convert(format_, tools[part], options, hashes=hashes[part])
    return tools, hashes


def hash_of(raw: bytes) -> bytes:
    """The key of a caller's definition among the sizes."""
    return blake2b(raw, digest_size=16).digest()
