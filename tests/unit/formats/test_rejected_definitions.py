"""If a faulty converter writes a definition that breaks a provider's rule, only that definition is left out."""

from __future__ import annotations

import copy
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings

from examples import examples
from fairlead_formats.registry import FORMATS, MCP, find
from fairlead_formats.request_rules.draft import draft_fault
from fairlead_formats.schema import rules
from fairlead_formats.tool_format import Action, JsonObject, Options
from fairlead_formats.tools.cache import Conversions, hash_of
from fairlead_formats.tools.definitions import REJECTED, Envelope, Parts, ProviderTool, ToolFormat
from fairlead_formats.tools.envelopes import rename_tool, tools_of, tools_request
from fairlead_tools.validation.schema_draft import draft_error
from formatschemas import SCHEMAS
from hostileschemas import KINDS, WILD

NO_ITEMS = {"type": "object", "properties": {"q": {"type": "array"}}}
NULL = {"type": "object", "properties": {"q": {"type": "string"}}, "required": None}
DOLLAR = {"type": "object", "properties": {"$filter": {"type": "string"}}}
EXCLUSIVE = {"type": "object", "properties": {"q": {"type": "integer", "exclusiveMinimum": 0}}}
OPEN = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
FAULTS: dict[str, tuple[str, Options, JsonObject, str]] = {
    "openai-chat": ("openai-chat", Options(), NO_ITEMS, "chat-schema-items"),
    "openai-chat strict": ("openai-chat", Options(strict=True), OPEN, "chat-strict-closed"),
    "openai-functions": ("openai-functions", Options(), NO_ITEMS, "chat-schema-items"),
    "azure-openai": ("azure-openai", Options(), NULL, "chat-schema-valid"),
    "openai-responses": ("openai-responses", Options(), NULL, "responses-schema-valid"),
    "openai-realtime": ("openai-realtime", Options(), {"type": "array"}, "realtime-schema-root"),
    "anthropic": ("anthropic", Options(), DOLLAR, "messages-property-name"),
    "gemini": ("gemini", Options(), NULL, "gemini-json-schema"),
    "gemini parameters": ("gemini", Options(gemini_field="parameters"), EXCLUSIVE, "gemini-schema-member"),
    "gemini-live": ("gemini-live", Options(), EXCLUSIVE, "gemini-schema-member"),
    "bedrock-converse": ("bedrock-converse", Options(), NULL, "converse-schema-valid"),
}
"""By case: format, options, a schema that a faulty converter writes, and the rule that forbids it."""
every_fault = pytest.mark.parametrize("case", FAULTS)
GOOD = {"name": "good", "description": "Good.", "inputSchema": {"type": "object", "properties": {}}}
ODD = {"name": "odd", "description": "Odd.", "inputSchema": {"type": "object", "properties": {"q": {}}}}


def faulty(format_: ToolFormat, schema: JsonObject) -> ToolFormat:
    """The format with a converter that writes `schema` for one tool, and converts all others correctly."""

    def write(parts: Parts) -> JsonObject:
        if parts.description == "Odd.":
            parts = msgspec.structs.replace(parts, schema=schema, strict=parts.options.strict or None)
        return format_.envelope.write(parts)

    copied = copy.copy(format_)
    copied.envelope = msgspec.structs.replace(format_.envelope, write=write)
    return copied


def test_every_format_of_a_provider_is_judged() -> None:
    assert {format_name for format_name, *_ in FAULTS.values()} == FORMATS.keys() - {MCP}


@every_fault
def test_a_definition_that_breaks_a_rule_of_the_provider_is_left_out_alone_and_the_rule_is_named(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    format_name, options, schema, rule = FAULTS[case]
    format_ = find(format_name)
    assert isinstance(format_, ToolFormat)
    with caplog.at_level(logging.ERROR):
        outcome = faulty(format_, schema).convert([ODD, GOOD], options)
    assert outcome.tools == format_.convert([GOOD], options).tools
    (loss,) = [loss for loss in outcome.report if loss.action is Action.REFUSED]
    assert loss.tool == "odd"
    assert loss.why.startswith(f"{REJECTED}: {rule}, ")
    assert [rule in message and "'odd'" in message for message in caplog.messages] == [True]


@every_fault
def test_the_right_conversion_of_the_same_tool_is_accepted(case: str) -> None:
    format_name, options, *_ = FAULTS[case]
    assert len(find(format_name).convert([ODD, GOOD], options).tools) == 2


def test_a_definition_is_judged_once_however_often_it_is_converted() -> None:
    judged: list[str] = []

    def rejection(definition: JsonObject) -> str | None:
        judged.append(definition["name"])
        return "acme-names" if definition["name"] == "odd" else None

    envelope = Envelope(
        lambda parts: {"name": "", "takes": parts.schema},
        rename_tool,
        lambda tool: ProviderTool(tool["name"], schema=tool["takes"]),
        tools_request,
        tools_of,
    )
    acme = ToolFormat("acme", "Acme", (), envelope, lambda options: (rules.OPENAI, None), rejection=rejection)
    conversions = Conversions()
    outcomes = [conversions.convert(acme, [ODD, GOOD]) for _ in range(3)]
    assert judged == ["odd", "good"]
    assert [[tool["name"] for tool in outcome.tools] for outcome in outcomes] == [["good"]] * 3
    assert [[loss.why for loss in outcome.report] for outcome in outcomes] == [[f"{REJECTED}: acme-names"]] * 3


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[*HealthCheck])
@given(schema=WILD | SCHEMAS | KINDS["any value of any keyword"] | KINDS["keywords that are null"])
def test_the_check_of_converted_schemas_agrees_with_a_validator_of_the_draft(schema: Any) -> None:
    if isinstance(schema, dict):
        schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}  # set by the validator
    assume(hash_of({"schema": schema}) is not None)  # definitions that are not JSON are refused before the check
    assert (draft_fault(schema) is None) == (draft_error(schema) is None)


@pytest.mark.parametrize(
    "schema", [{"minLength": 1.0}, {"enum": []}, {"nullable": "yes"}, {"additionalItems": 7}, True]
)
def test_a_schema_that_the_draft_allows_has_no_fault(schema: Any) -> None:
    assert draft_error(schema) is None
    assert draft_fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"required": None}, "null is not a valid value of required at required"),
        ({"properties": {"a": {"minimum": "1"}}}, '"1" is not a valid value of minimum at properties/a/minimum'),
        ({"anyOf": [{}, {"items": [{}]}]}, "[{}] is not a valid value of items at anyOf/1/items"),
        ({"$defs": {"a": 7}}, '{"a":7} is not a valid value of $defs at $defs'),
        ([], "a schema is an object or a boolean"),
    ],
)
def test_a_fault_names_the_keyword_its_value_and_its_place(schema: Any, fault: str) -> None:
    assert draft_error(schema) is not None
    assert draft_fault(schema) == fault
