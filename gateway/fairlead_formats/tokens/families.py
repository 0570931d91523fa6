"""How a family of models puts tools and text into tokens, as against o200k's count of compact JSON.

Pure module. No provider but OpenAI publishes its tokenizer, and none how it renders tools: the factors are measured or
quoted ones, rounded up, for a budget must not be too small. The exact figure of a request is in the answer's usage.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec


class Family(msgspec.Struct, frozen=True):
    """Factors of one family; thousandths, so that sums stay whole and planning deterministic."""

    name: str
    text: int
    """Tokens of plain text for 1,000 of o200k."""
    tools: int
    """Tokens of rendered definitions for 1,000 of their compact JSON in o200k."""
    preamble: int
    """Tokens that a request pays once for having tools at all."""
    per_message: int = 4
    source: str = ""


OPENAI: Final = Family("openai", 1000, 700, 12, source="rendered as a TypeScript namespace, 0.68 of the compact JSON")
CLAUDE_3: Final = Family("claude-3", 1200, 1200, 530, source="o200k misses 15 to 20 %; tool prompt of Opus")
CLAUDE_4: Final = Family("claude-4", 1200, 1200, 346, source="as before; tool prompt quoted for Claude 4")
CLAUDE_4_7: Final = Family("claude-4.7", 1550, 1550, 346, source="from Opus 4.7 on 1.0 to 1.35 times as many")
GEMINI: Final = Family("gemini", 1150, 1150, 30, source="vocabulary of Gemma 3; margin of 15 %, not measured")
QWEN: Final = Family("qwen", 1100, 1200, 201, source="chat template of Qwen3.5: spaced JSON")
DEEPSEEK: Final = Family("deepseek", 1050, 1250, 222, source="chat template of V4: spaced JSON; 3 % above o200k")
LLAMA: Final = Family("llama", 1160, 1400, 222, source="spaced JSON; tokenizer of Llama 2, 16 % above o200k")
UNKNOWN: Final = Family("unknown", 1200, 1450, 350, source="not known: taken from the upper end of the others")

_BY_NAME: Final = (
    (re.compile(r"(gpt|chatgpt|o[134]|codex|computer-use)(-|$|\d)"), OPENAI),
    (re.compile(r"claude-(instant|2|3)"), CLAUDE_3),
    (re.compile(r"claude-(opus|sonnet|haiku)-4(-[0-6])?(-\d{8}.*)?(-v\d.*)?(@.*)?$"), CLAUDE_4),
    (re.compile(r"claude"), CLAUDE_4_7),
    (re.compile(r"(gemini|gemma)"), GEMINI),
    (re.compile(r"(qwen|qwq)"), QWEN),
    (re.compile(r"deepseek"), DEEPSEEK),
    (re.compile(r"(meta-)?llama"), LLAMA),
)


def family_of(model: str) -> Family:
    """The family of a model by its name, however a provider or a router writes it."""
    name = bare(model)
    for pattern, family in _BY_NAME:
        if pattern.match(name):
            return family
    return UNKNOWN


_PREFIXES: Final = re.compile(
    r"(?:(?:us|eu|apac|global|regional)\.)?(?:(?:anthropic|amazon|meta|mistral|openai|deepseek|qwen|google)\.)?(?P<name>.*)"
)


def bare(model: str) -> str:
    """A model's name without provider and region: of `us.anthropic.claude-5`, `models/gemini-3`, `openai/gpt-5`."""
    last = model.strip().lower()[-200:].rsplit("/", 1)[-1]
    found = _PREFIXES.fullmatch(last)
    return found["name"] if found and found["name"] else last
