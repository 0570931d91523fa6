"""Chooses visible tools that fit a budget, and converts them to a format, together with the caller's tools.

The functions run in the worker thread. They combine the budget of `fairlead_formats.tokens.plan` with the conversions
of `fairlead_formats`.
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
from fairlead_offers.workers.heavy_work import STRIDE, HeavyWork, with_pauses

_NO_CONVERSATION: Final = ConversationTokens(0, 0)
NO_CALLER_TOOLS: Final = CallerTools()
MAX_LOCAL_CONVERSIONS: Final = 64
"""Maximum number of definitions that the worker thread converts itself, in about three milliseconds, if their
conversions are not cached. More definitions are converted in another process.
"""
_encode: Final = msgspec.json.Encoder().encode


class OfferedTools(Conversion, frozen=True, rename="camel", omit_defaults=True):
    """Tools in the format of a provider's request, and the tools that were left out."""

    offline: tuple[str, ...] = ()
    """Tools that were left out because their server is offline."""
    cut: tuple[Cut, ...] = ()
    """Tools that were left out because of a limit, each with that limit."""
    numbers: Numbers | None = None
    """Tokens by their use; only present if the request has a budget."""
    hidden: HiddenTools | None = None
    """Tools that policies allow but the tier hides; absent if there are none."""
    own: tuple[str, ...] = ()
    """Names in `tools` that belong to the caller, to whom `/v1/tool-calls` returns their calls."""
    matched: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Exposed names of gateway tools that the request has, by the name in the request."""


async def candidates(
    work: HeavyWork,
    entries: Sequence[VisibleTool],
    pinned: Collection[str] = (),
    caller_tools: CallerTools = NO_CALLER_TOOLS,
) -> list[Candidate]:
    """Count the tokens of the caller's tools, which are never left out, and of `entries`. Must be awaited in
    `run_in_steps`. `pinned`: names or ids of entries that are never left out.
    """
    caller_raws = {hash_of(raw): (tool["name"], raw) for tool in caller_tools.tools for raw in (_encode(tool),)}
    definitions = {entry.key.encode(): entry.definition for entry in entries}
    sizes = await work.count(definitions | {key: raw for key, (_, raw) in caller_raws.items()})
    counted_candidates = [
        Candidate(name, sizes.of(raw, key).tokens, pinned=True) for key, (name, raw) in caller_raws.items()
    ]
    for entry in with_pauses(entries):
        size = sizes.of(entry.definition, entry.key.encode())
        is_pinned = entry.pinned or entry.name in pinned or entry.id in pinned
        counted_candidates.append(Candidate(entry.name, size.tokens, size.short, is_pinned))
    return counted_candidates


def single_model(models: ModelFacts, format_: Format, name: str | None) -> RouteModel:
    """Model with the context window that tools have to fit. Without a name, the window is unlimited."""
    if name is None:
        return RouteModel("any", ContextWindow(MAX_WINDOW, source="none"), format_.name, None)
    return RouteModel(name or "any", models.windows.window(name), format_.name, format_.max_tools)


async def fit_tools(
    work: HeavyWork,
    entries: Sequence[VisibleTool],
    model: RouteModel,
    limits: PlanLimits,
    caller_tools: CallerTools = NO_CALLER_TOOLS,
) -> Plan:
    """Choose the entries that fit the model and the limits, together with the caller's tools but without a
    conversation. Must be awaited in `run_in_steps`. Raises Problem.
    """
    counted_candidates = await candidates(work, entries, caller_tools=caller_tools)
    return require_plan(plan([model], counted_candidates, _NO_CONVERSATION, limits, work.sizes.counter.name))


def require_plan(outcome: Plan | PlanRefused) -> Plan:
    """Return a plan. Raises Problem for a refusal, with changes that would make the tools fit."""
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
    caller_tools: CallerTools = NO_CALLER_TOOLS,
) -> OfferedTools:
    """Convert entries to a format, followed by the caller's tools. Entries in `short` get shortened descriptions. Must
    be awaited in `run_in_steps`.
    """
    definitions, hashes = await _prepare_conversions(work, format_, entries, short, options)
    names = (
        offered_names(format_.name, visible, caller_tools)
        if caller_tools.tools or format_.name == MCP
        else visible.names
    )
    added_names = [entry.name for entry in entries if entry.name not in names]
    names = Names.extend(names, added_names) if added_names else names
    conversion = work.conversions.convert(format_, definitions, options, hashes=hashes, names=names)
    report, properties = caller_tools.report + conversion.report, conversion.properties
    if isinstance(format_, ToolFormat) and format_.shares_form_with(caller_tools.format):
        member, tools = format_.place_tools(conversion.tools, caller_tools.original_definitions(format_, names))
    else:
        caller_conversion = format_.convert(caller_tools.tools, options, names)
        member, tools = array_of(format_.request(conversion.tools + caller_conversion.tools))
        report += caller_tools.conversion_losses + caller_conversion.report
        properties = {**properties, **caller_conversion.properties}
    caller_names = [tool["name"] for tool in caller_tools.tools]
    caller_names_in_offer = caller_tools.names_in(format_, names)
    exposed_names = {names.safe_name(entry.name): entry.name for entry in entries} | {
        caller_names_in_offer[name]: name for name in caller_names
    }
    return OfferedTools(
        format_.name,
        member,
        tools,
        exposed_names,
        report,
        properties,
        format_.max_tools,
        own=tuple(caller_names_in_offer[name] for name in caller_names),
        matched=caller_tools.matched,
    )


async def _prepare_conversions(
    work: HeavyWork, format_: Format, entries: Sequence[VisibleTool], short: Collection[str], options: Options
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Fill the cache of conversions for entries, and return their decoded definitions and cache keys. More new
    definitions than `MAX_LOCAL_CONVERSIONS` are converted in another process; fewer are converted in this thread, with
    pauses. Must be awaited in `run_in_steps`.
    """
    hashes = [f"{entry.key} shortened" if entry.name in short else entry.key for entry in entries]
    new_indexes = [index for index, key in enumerate(hashes) if not work.conversions.has(format_, options, key)]
    if len(new_indexes) > MAX_LOCAL_CONVERSIONS and format_.name != MCP:
        raws = [RawTool(entries[i].name, Raw(entries[i].definition), entries[i].name in short) for i in new_indexes]
        await work.prepare(format_, options, {hashes[i]: raw for i, raw in zip(new_indexes, raws, strict=True)})
    tools = [
        shorten(entry.decoded_definition) if entry.name in short else entry.decoded_definition for entry in entries
    ]
    for start in with_pauses(range(0, len(tools), STRIDE)) if new_indexes and format_.name != MCP else ():
        part = slice(start, start + STRIDE)
        work.conversions.convert(format_, tools[part], options, hashes=hashes[part])
    return tools, hashes


def hash_of(raw: bytes) -> bytes:
    """Cache key for the token count of a caller's definition."""
    return blake2b(raw, digest_size=16).digest()
