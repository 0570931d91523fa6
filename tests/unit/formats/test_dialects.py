"""Texts that are regular expressions in Python, in ECMA-262, in both, or in neither."""

from __future__ import annotations

import pytest

from fairlead_formats.registry import find
from fairlead_formats.schema.dialects import MAX_PATTERN, Dialect, pattern_fault
from fairlead_formats.tool_format import Action

BOTH = [
    "^a$",
    r"\d{3}-\d{4}",
    "(?=a)a",
    "(?<!a)b",
    r"(a)\1",
    r"^[^\x00-\x1f]*$",
    r"[[a]&&[b]]",
    r"\_",
    "a{2",
    r"[\]\[]",
]
PYTHON = ["(?P<x>a)", r"a\Z", r"\Aa", "(?i)a", "a++", "(?P<x>a)(?P=x)", "(?#note)a"]
ECMA = [
    r"^\p{L}+$",
    r"^(?!__.*__$)[^\p{Cc}\p{Cf}]{1,200}$",
    r"\u{1F600}",
    r"(?<x>a)\k<x>",
    r"[\w-.]",
    r"[a-\d]",
    r"\cA",
    "[^]",
    "[]",
    "(?<=a*)b",
]
NEITHER = ["(", ")", "[", "*", "a{2,1}", "[z-a]", "\\", r"\k<y>", "a" * (MAX_PATTERN + 1), "a{99999999999}"]


@pytest.mark.parametrize("text", [*BOTH, *PYTHON, *ECMA, *NEITHER])
def test_a_pattern_is_a_regular_expression_in_the_dialects_that_have_its_syntax(text: str) -> None:
    assert (pattern_fault(text, Dialect.PYTHON) is None) == (text in BOTH + PYTHON)
    assert (pattern_fault(text, Dialect.ECMA) is None) == (text in BOTH + ECMA)


@pytest.mark.parametrize(
    ("format_name", "fitting", "others"),
    [
        ("openai-chat", BOTH + PYTHON, ECMA + NEITHER),
        ("openai-responses", BOTH + PYTHON, ECMA + NEITHER),
        ("anthropic", BOTH + ECMA, PYTHON + NEITHER),
        ("gemini", BOTH + ECMA, PYTHON + NEITHER),
        ("gemini-live", BOTH + ECMA, PYTHON + NEITHER),
    ],
)
def test_a_pattern_of_another_dialect_is_described_whichever_the_provider(
    format_name: str, fitting: list[str], others: list[str]
) -> None:
    for text in fitting + others:
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": text}}}
        converted = find(format_name).convert([{"name": "t", "description": "d", "inputSchema": schema}])
        described = [loss.path for loss in converted.report if loss.action is Action.DESCRIBED]
        assert described == ([] if text in fitting else ["/inputSchema/properties/a"])
        assert ('"pattern"' in repr(converted.tools).replace("'", '"')) == (text in fitting)


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "gemini"])
def test_a_pattern_of_property_names_that_does_not_compile_is_described(format_name: str) -> None:
    patterns = {"^x-": {"type": "string"}, "^(": {"type": "integer"}}
    schema = {"type": "object", "properties": {"a": {"type": "object", "patternProperties": patterns}}}
    converted = find(format_name).convert([{"name": "t", "description": "d", "inputSchema": schema}])
    (loss,) = converted.report
    assert (loss.action, loss.path) == (Action.DESCRIBED, "/inputSchema/properties/a/patternProperties/^(")
    assert "^x-" in repr(converted.tools)
    assert "Properties that match ^(: an integer" in repr(converted.tools)
