"""Detection of phrases in descriptions that address the model instead of a human reader. No I/O.

`SIGNS` has phrases of known attacks: tool poisoning, shadowed tools, chat templates, prompt injection. A description
without these phrases may still be harmful. All gaps in a pattern are bounded, so that searching takes linear time, and
a pattern is tried only if one of its `hints` occurs.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Sign(NamedTuple):
    """Phrase to search for, with its description. Hints and pattern match text in lower case."""

    description: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _sign(description: str, hints: str, pattern: str) -> Sign:
    return Sign(description, tuple(hints.split(",")), re.compile(pattern))


_WORDS: Final = r"(?:[\w'’]{1,30}[\s,]{1,3}){0,5}"
_MODEL_WORDS: Final = r"(?:system|assistant|instructions?|prompt|admin|secret|hidden|developer|override)"

SIGNS: Final = (
    _sign(
        "a tag that speaks to the model",
        "<important,</important,<critical,<secret,<hidden,<system-,<system_,<system>,</system,<instruction,"
        "</instruction,</assistant,</prompt,<override,<!important",
        r"</?(?:important|critical|secret|hidden|override|system[-_ ](?:prompt|message|reminder|note|instructions?))"
        rf"\b[^<>\n]{{0,60}}>|</{_MODEL_WORDS}>|(?:^|\n)[ \t]{{0,8}}<(?:{_MODEL_WORDS})>",
    ),
    _sign(
        "a token of a chat template",
        "<|,[inst],[/inst],<<sys>>,<start_of_turn>,<end_of_turn>",
        r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|endofprompt|eot_id|eom_id|begin_of_text"
        r"|start_header_id|end_header_id|channel|message|return|call)\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    ),
    _sign(
        "an order to ignore instructions",
        "ignore,disregard,forget,override,bypass",
        r"\b(?:ignore|disregard|forget|override|bypass)[\s,]{1,3}"
        + _WORDS
        + r"(?:previous|prior|above|earlier|preceding|existing|original|system|safety|your)[\s,]{1,3}"
        + r"(?:[\w'’]{1,30}[\s,]{1,3}){0,2}(?:instructions?|prompts?|rules?|directives?|guidelines?|guardrails?)\b",
    ),
    _sign(
        "an order to hide something from the user",
        "user,human",
        r"\b(?:do not|don['’]t|never|must not|without|avoid)[\s]{1,3}(?:ever[\s]{1,3})?"
        r"(?:tell|mention|inform|reveal|notify|alert|warn)(?:ing)?[\s]{1,3}" + _WORDS + r"(?:user|human)s?\b",
    ),
    _sign(
        "a new role for the model",
        "you are now,from now on,new instructions,system prompt:,system message:",
        r"\byou are now (?:in|a|an|the)\b|\bfrom now on,? (?:you|always|never|all)\b|(?:^|\n)[ \t#*]{0,8}"
        r"(?:new instructions?|system (?:prompt|message|override))[ \t*]{0,4}:",
    ),
    _sign(
        "a file that holds keys or passwords",
        "~/,id_rsa,id_ed25519,/etc/shadow,/etc/passwd,$home/,/.ssh/,/.aws/",
        r"(?:~|\$home|/root|/home/\w{1,32})/\.(?:ssh|aws|kube|gnupg|netrc|cursor/mcp\.json|docker/config|npmrc|pypirc)"
        r"|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:shadow|passwd)\b",
    ),
    _sign(
        "an HTML comment, which Markdown viewers do not show",
        "<!--",
        r"<!--",
    ),
)


def describe_model_phrases(text: str) -> str:
    """Describe the first phrase in `text` that addresses the model; empty if there is no such phrase."""
    lower_text = text.lower()
    for sign in SIGNS:
        if any(hint in lower_text for hint in sign.hints) and sign.pattern.search(lower_text):
            return sign.description
    return ""
