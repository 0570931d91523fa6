"""Token counts from the usage of every provider, and estimates for answers without usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_models.request_record import MAX_TOKENS, TokenUsage, estimate_tokens, token_usage

STATED: dict[str, tuple[dict[str, Any], TokenUsage]] = {
    "OpenAI's chat": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        },
        TokenUsage(100, 20, 64),
    ),
    "DeepSeek, in OpenAI's form": (
        {"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 30},
        TokenUsage(100, 20, 30),
    ),
    "LiteLLM, with Anthropic's members beside OpenAI's": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "cache_read_input_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 30},
        },
        TokenUsage(100, 20, 30),
    ),
    "OpenAI's responses": (
        {
            "input_tokens": 100,
            "output_tokens": 20,
            "input_tokens_details": {"cached_tokens": 64},
            "output_tokens_details": {"reasoning_tokens": 15},
        },
        TokenUsage(100, 20, 64),
    ),
    "Anthropic, which counts the cache apart": (
        {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10, "output_tokens": 20},
        TokenUsage(100, 20, 80, 10),
    ),
    "Bedrock, which counts the cache apart": (
        {"inputTokens": 10, "cacheReadInputTokens": 80, "cacheWriteInputTokens": 10, "outputTokens": 20},
        TokenUsage(100, 20, 80, 10),
    ),
    "Gemini, which counts thoughts apart": (
        {
            "promptTokenCount": 90,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 15,
            "cachedContentTokenCount": 64,
            "totalTokenCount": 120,
        },
        TokenUsage(100, 20, 64),
    ),
    "Gemini Live": (
        {"promptTokenCount": 100, "responseTokenCount": 20, "totalTokenCount": 120},
        TokenUsage(100, 20),
    ),
    "nothing": ({}, TokenUsage()),
    "an answer without a text": ({"prompt_tokens": 100}, TokenUsage(100)),
    "values that are not numbers": (
        {"prompt_tokens": "100", "completion_tokens": None, "prompt_tokens_details": [1]},
        TokenUsage(),
    ),
    "what cannot be": ({"prompt_tokens": -5, "completion_tokens": 10**30}, TokenUsage(0, MAX_TOKENS)),
    "true": ({"input_tokens": True, "output_tokens": 1}, TokenUsage(0, 1)),
}


@pytest.mark.parametrize("form", STATED)
def test_usage_is_read_in_every_form(form: str) -> None:
    stated, expected = STATED[form]
    assert token_usage(stated) == expected


def test_the_usage_of_one_round_is_the_increase_of_the_sum() -> None:
    assert TokenUsage(30, 7, 5) - TokenUsage(10, 2, 5) == TokenUsage(20, 5)
    assert TokenUsage(1) - TokenUsage(2) == TokenUsage()
    assert (TokenUsage(1, 2) + TokenUsage(3, 4)).total == 10


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("", 0, 5), ("word " * 400, 500, 510), ("字" * 4000, 3000, 3010), ("A" * 10_000_000, 1000, 1010)],
)
def test_an_estimate_takes_text_by_its_bytes_and_files_for_images(text: str, least: int, most: int) -> None:
    body = json.dumps({"content": text}, ensure_ascii=False).encode()
    assert least <= estimate_tokens(body) <= most
