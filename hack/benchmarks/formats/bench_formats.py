"""Tool definitions in every provider's format: valid, true to the original, and fast.

Over the MCP tools of a file of JSON lines (`{"name", "description", "inputSchema", "pool"}`) that the environment
variable FAIRLEAD_EVAL_TOOLS names. Valid is what the rule set of the tests finds nothing against. Disagreement is
judged by jsonschema-rs over 100 values per tool, half of them made from the original schema and half from the
converted one, half of each changed in one place: *narrowed* are values that the original takes and the converted
refuses, *widened* the reverse. *Wrong in all* counts a tool that was not converted, or whose definition the provider
would refuse, as wrong for every value: what a model sees of such a tool agrees with nothing. FAIRLEAD_PEERS_PYTHON may
name the Python of an environment with pydantic-ai, openai-agents and litellm, whose transformers then run on the same
tools.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import msgspec

from fairlead_formats import registry
from fairlead_formats.providers.gemini.openapi import from_openapi
from fairlead_formats.schema.nulls import remove_nulls
from fairlead_formats.tool_format import DEFAULT, Action, ConvertedTools, Format, Options
from fairlead_formats.tools.cache import Conversions, hash_of
from formats.instances import Instances
from formats.peers import peers
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable

VARIABLE = "FAIRLEAD_EVAL_TOOLS"
SUPPORT = Path(__file__).resolve().parents[3] / "tests" / "support"
VALUES = 100

Tool = dict[str, Any]
Validator = jsonschema_rs.Draft202012Validator


@dataclass(frozen=True)
class Target:
    """One column of the table."""

    name: str
    format: Format
    options: Options = DEFAULT


def targets() -> list[Target]:
    """All formats, and variants that an option selects."""
    targets = [Target(name, format_) for name, format_ in registry.FORMATS.items() if name != registry.MCP]
    gemini, bedrock = registry.find("gemini"), registry.find("bedrock-converse")
    chat, anthropic = registry.find(registry.OPENAI_CHAT), registry.find("anthropic")
    return [
        *targets,
        Target("openai-chat, gpt-5", chat, Options(model="gpt-5")),
        Target("openai-chat, strict", chat, Options(strict=True)),
        Target("anthropic, strict", anthropic, Options(strict=True)),
        Target("gemini, parameters", gemini, Options(gemini_field="parameters")),
        Target("bedrock-converse, claude", bedrock, Options(model="claude-sonnet-5")),
        Target("bedrock-converse, claude strict", bedrock, Options(model="claude-sonnet-5", strict=True)),
    ]


def tools() -> list[Tool]:
    """Definitions of the pool of real MCP servers, with unique names. Raises Unmeasurable."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).is_file():
        raise Unmeasurable(f"{VARIABLE} must name a file of tool definitions as JSON lines")
    every_tool: list[Tool] = []
    with Path(path).open("rb") as lines:
        for line in lines:
            tool = msgspec.json.decode(line)
            if tool.get("pool", "mcp") == "mcp":
                name = tool.get("id") or f"{len(every_tool)}_{tool['name']}"
                members = {key: tool[key] for key in ("description", "inputSchema") if key in tool}
                every_tool.append({"name": name, "inputSchema": {"type": "object", "properties": {}}, **members})
    return every_tool


def schema_of(target: Target, written: Tool) -> tuple[Tool, bool]:
    """The schema in a provider's tool as JSON Schema, and whether it is strict."""
    function = written.get("function") or written.get("toolSpec") or written
    schema = function.get("parameters") or function.get("input_schema") or function.get("parametersJsonSchema")
    schema = schema or function.get("inputSchema", {}).get("json") or {"type": "object", "properties": {}}
    if target.format.name == "gemini-live" or target.options.gemini_field == "parameters":
        schema = from_openapi(schema)
    return schema, function.get("strict") is True


def with_nulls(value: Any, schema: Any) -> Any:
    """A model's answer in strict mode in place of `value`: null for every required property that is missing."""
    if isinstance(value, list) and isinstance(schema, dict) and isinstance(schema.get("items"), dict):
        return [with_nulls(item, schema["items"]) for item in value]
    if not isinstance(value, dict) or not isinstance(schema, dict) or "properties" not in schema:
        return value
    described = schema["properties"]
    out = {name: with_nulls(part, described.get(name)) for name, part in value.items()}
    return {**out, **{name: None for name in schema.get("required", ()) if name not in out}}


@dataclass
class Disagreement:
    """Values that two schemas judge differently."""

    values: int = 0
    narrowed: int = 0
    widened: int = 0

    def add(self, original: Tool, converted: Tool, *, strict: bool, chance: Random) -> None:
        """Compare one pair of schemas."""
        try:
            judge, other = Validator(original), Validator(converted)
        except (ValueError, jsonschema_rs.ValidationError):
            return  # validators cannot compile the original schema
        for source, mine in ((Instances(original, chance), True), (Instances(converted, chance), False)):
            for number in range(VALUES // 2):
                value = source.near() if number % 2 else source.value()
                shown = with_nulls(value, converted) if strict and mine else value
                plain = remove_nulls(value, original) if strict and isinstance(value, dict) else value
                before, after = judge.is_valid(plain), other.is_valid(shown)
                self.values += 1
                self.narrowed += before and not after
                self.widened += after and not before


def wrong_in_all(valid: float, measured: Disagreement) -> float:
    """Percent of values over all tools; `valid` is the percentage of tools that are converted and taken."""
    return 100 - valid + valid * (measured.narrowed + measured.widened) / max(measured.values, 1)


def disagreement(pairs: Iterable[tuple[Tool, Tool, bool]]) -> Disagreement:
    """Disagreement over all pairs of (original, converted, strict)."""
    measured, chance = Disagreement(), Random(7)
    for original, converted, strict in pairs:
        measured.add(original, converted, strict=strict, chance=chance)
    return measured


def _pairs(target: Target, every: list[Tool], converted: ConvertedTools) -> list[tuple[Tool, Tool, bool]]:
    originals = {tool["name"]: tool["inputSchema"] for tool in every}
    out = []
    for written in converted.tools:
        safe = (written.get("function") or written.get("toolSpec") or written)["name"]
        schema, strict = schema_of(target, written)
        out.append((originals[str(converted.names.original_name(safe))], schema, strict))
    return out


def _rate(work: Callable[[], object], count: int, rounds: int) -> Sample:
    rates = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        rates.append(count / max(time.process_time() - start, 1e-9))
    return Sample.of(rates)


def measure(target: Target, every: list[Tool], rounds: int, quick: bool) -> tuple[dict[str, Any], float, Sample]:
    """One row, the percentage of valid tools, and the rate without caches."""
    from formatrules import violations

    converted = target.format.convert(every, target.options)
    valid = sum(not violations(target.format.name, tool, target.options.model) for tool in converted.tools)
    sample = _pairs(target, every, converted)
    disagreements = disagreement(sample[::20] if quick else sample)
    cold = _rate(lambda: target.format.convert(every, target.options), len(every), rounds)
    conversions, hashes = Conversions(), [hash_of(tool) or "" for tool in every]
    conversions.convert(target.format, every, target.options, hashes=hashes)
    cached = _rate(lambda: conversions.convert(target.format, every, target.options, hashes=hashes), len(every), rounds)
    lossy = {loss.tool for loss in converted.report if loss.lossy and loss.action is not Action.NON_STRICT}
    percent = 100 * valid / len(every)
    row = {
        "target": target.name,
        "valid %": percent,
        "strict": sum(strict for _, _, strict in sample) if target.options.strict else None,
        "with losses": len(lossy),
        "narrowed %": 100 * disagreements.narrowed / max(disagreements.values, 1),
        "widened %": 100 * disagreements.widened / max(disagreements.values, 1),
        "wrong in all %": wrong_in_all(percent, disagreements),
        "cold/s": cold,
        "cached/s": cached,
    }
    return row, percent, cold


def _valid_peers(name: str, pairs: list[tuple[Tool, Tool, bool]]) -> int:
    """Number of another project's schemas that the rule set accepts, within an envelope of Fairlead."""
    from formatrules import violations

    count = 0
    for _, schema, strict in pairs:
        tool: Tool = {"name": "t", "description": "d"}
        if "gemini" in name:
            field = "parameters" if "parameters" in name else "parametersJsonSchema"
            empty = field == "parameters" and not schema.get("properties")  # left out elsewhere in their request
            count += not violations("gemini", tool if empty else {**tool, field: schema})
        elif "anthropic" in name:
            count += not violations("anthropic", {**tool, "input_schema": schema})
        else:
            function = {**tool, "parameters": schema, "strict": strict}
            count += not violations("openai-chat", {"type": "function", "function": function})
    return count


_OURS = {
    "parameters": "gemini, parameters",
    "gemini": "gemini",
    "anthropic": "anthropic",
    "strict": "openai-chat, strict",
    "openai": "openai-chat",
}
"""For a part of a peer's name, the target of Fairlead that it is compared with. The first match counts."""


def _against(theirs: dict[str, Any], rows: list[dict[str, Any]]) -> list[Goal]:
    """Goals: Fairlead's conversion for the same target disagrees with the original at most as much as theirs, and less
    if tools that cannot be converted count as well.
    """
    name = str(theirs["target"])
    target = next(ours for part, ours in _OURS.items() if part in name)
    ours = next(row for row in rows if row["target"] == target)
    more = sum(ours[key] - theirs[key] for key in ("narrowed %", "widened %"))
    in_all = ours["wrong in all %"] - theirs["wrong in all %"]
    return [
        Goal(f"disagreement of {target}, less that of {name}", more, "% of values", at_most=0),
        Goal(f"wrong in all, {target}, less that of {name}", in_all, "% of values", at_most=0),
    ]


def run(settings: Settings) -> Report:
    """Measure; raises Unmeasurable without tools."""
    sys.path.insert(0, str(SUPPORT))
    every = tools()
    report = Report("formats", notes=[f"{len(every)} tools, one core, processor time"])
    report.notes.append(
        "a strict row holds the tools that stay lax, too; what it narrows is mostly open objects, closed"
    )
    report.notes.append(
        "where both disagree nowhere, the difference of 0 is a tie; what is refused then tells them apart"
    )
    worst, slowest, slowest_strict = 100.0, float("inf"), float("inf")
    for target in targets():
        row, percent, cold = measure(target, every, settings.rounds, settings.quick)
        report.rows.append(row)
        worst = min(worst, percent)
        if target.options.strict:
            slowest_strict = min(slowest_strict, cold.high)
        else:
            slowest = min(slowest, cold.high)
    for name, pairs in peers(every, report.notes):
        judged = [(a, from_openapi(b), strict) for a, b, strict in pairs] if "parameters" in name else pairs
        theirs = disagreement(judged[::20] if settings.quick else judged)
        valid = 100 * _valid_peers(name, pairs) / len(every)
        row = {
            "target": name,
            "valid %": valid,
            "narrowed %": 100 * theirs.narrowed / max(theirs.values, 1),
            "widened %": 100 * theirs.widened / max(theirs.values, 1),
            "wrong in all %": wrong_in_all(valid, theirs),
        }
        report.goals += _against(row, report.rows)
        report.rows.append(row)
    report.goals += [
        Goal("tools converted validly, worst target", worst, "%", at_least=100),
        Goal("conversions, cold, slowest target", slowest, "per second and core", at_least=20_000),
        Goal("the same, slowest strict target", slowest_strict, "per second and core", at_least=20_000),
    ]
    return report
