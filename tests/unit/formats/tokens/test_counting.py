"""Counting of tokens: exact with tiktoken and an estimate without it, and each count says which."""

from __future__ import annotations

import sys
import time

import pytest

from fairlead_formats.tokens import counting
from fairlead_formats.tokens.conversation import (
    MAX_IMAGE_TOKENS,
    PER_MESSAGE,
    PER_REPLY,
    ConversationTokens,
    measure_conversation,
)
from fairlead_formats.tokens.counting import BytesCounter, TokenCounter, best_counter, load_o200k
from fairlead_formats.tokens.shorten import cut, shorten
from fairlead_formats.tokens.sizes import Sizes


class Letters:
    """Counter for which each letter is a token, and which records each count."""

    name = "letters"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return len(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("Grüße aus Köln", 5), ("<|endoftext|>", 7), ("tiktoken is great!", 6)],
)
def test_the_exact_counter_counts_as_openai_does(text: str, tokens: int) -> None:
    counter = best_counter()
    assert counter.name == "o200k_base"
    assert counter.count(text) == tokens


@pytest.mark.timing
@pytest.mark.parametrize(
    "text", ["a" * 300_000, "1" * 300_000, "é" * 300_000, "\n" * 300_000, "ab" * 150_000, "\ud800"]
)
def test_no_text_takes_long_to_count_or_fails(text: str) -> None:
    counter = best_counter()
    begun = time.perf_counter()
    assert counter.count(text) > 0
    assert time.perf_counter() - begun < 2


def test_a_text_beyond_the_bound_is_estimated_high() -> None:
    assert best_counter().count("a" * (counting.MAX_EXACT + 2)) == (counting.MAX_EXACT + 2) // 2


def test_a_long_text_is_counted_piece_by_piece_almost_exactly() -> None:
    counter = best_counter()
    text = "The quick brown fox jumps over the lazy dog. " * 2000
    assert abs(counter.count(text) - 2000 * counter.count("The quick brown fox jumps over the lazy dog. ")) <= 2010


def test_without_tiktoken_bytes_are_counted_and_the_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert load_o200k() is None
    counter = BytesCounter()
    assert counter.name == "bytes/4"
    assert [counter.count(text) for text in ("", "a", "abcd", "abcde", "\ud800")] == [0, 1, 1, 2, 1]


def test_ranks_that_were_changed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SHA256", "0" * 64)
    with pytest.raises(counting.UnusableRanks, match="does not hold the ranks of o200k_base"):
        load_o200k()


TOOL = {
    "name": "now",
    "description": "Weather now. Returns degrees.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string", "title": "City"}}},
}


def test_a_tool_is_counted_once_per_definition() -> None:
    counter = Letters()
    sizes = Sizes(counter)
    first = sizes.of(TOOL)
    counted = len(counter.counted)
    assert sizes.of(dict(TOOL)) is first
    assert len(counter.counted) == counted
    assert sizes.of({**TOOL, "name": "later"}).tokens == first.tokens + 2


def test_tokens_are_counted_of_the_text_that_a_model_gets() -> None:
    counter = Letters()
    Sizes(counter).of({**TOOL, "outputSchema": {"type": "object"}, "_meta": {"x": 1}, "title": "Now"})
    assert counter.counted[0] == (
        '{"name":"now","description":"Weather now. Returns degrees.","parameters":'
        '{"type":"object","properties":{"city":{"type":"string","title":"City"}}}}'
    )


def test_sizes_are_bounded_and_the_oldest_goes_first() -> None:
    sizes = Sizes(Letters(), limit=2)
    a, b, c = ({**TOOL, "name": name} for name in "abc")
    first = sizes.of(a)
    sizes.of(b)
    assert sizes.of(a) is first
    sizes.of(c)
    assert len(sizes) == 2
    assert sizes.of(a) is first


@pytest.mark.parametrize("definition", [b"not json", b"[]", b"", b"[" * 10_000])
def test_an_invalid_definition_costs_what_its_text_costs(definition: bytes) -> None:
    size = Sizes(Letters()).of(definition)
    assert (size.tokens, size.short) == (len(definition), len(definition))


def test_shortening_cuts_prose_and_never_what_the_schema_demands() -> None:
    long = "First sentence. " + "More and more words follow here. " * 20
    schema = {
        "type": "object",
        "title": "Args",
        "properties": {
            "title": {"type": "string", "description": long, "enum": ["a. b", "c"], "examples": ["a"]},
            "description": {"type": "string", "default": {"title": "kept", "description": long}},
        },
        "required": ["title"],
    }
    short = shorten({"name": "t", "description": long, "inputSchema": schema})
    assert len(short["description"]) <= 200
    assert short["description"].endswith(".")
    properties = short["inputSchema"]["properties"]
    assert properties["title"] == {
        "type": "string",
        "description": "First sentence. More and more words follow here. More and more words follow",
        "enum": ["a. b", "c"],
    } | {"description": cut(long, 80)}
    assert properties["description"]["default"] == {"title": "kept", "description": long}
    assert "title" not in short["inputSchema"]
    assert short["inputSchema"]["required"] == ["title"]


def test_a_short_definition_stays_the_same_object() -> None:
    plain = {"name": "t", "description": "Short.", "inputSchema": {"type": "object"}}
    assert shorten(plain) is plain


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One. Two. Three.", 9, "One. Two."),
        ("One, two, three and four", 12, "One, two,…"),
        ("x" * 30, 10, "x" * 9 + "…"),
        ("天气。更多文字在这里", 5, "天气。更…"),
        ("v1.2 is out. And more", 12, "v1.2 is out."),
    ],
)
def test_a_text_is_cut_where_a_sentence_or_a_word_ends(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected


IMAGE_DATA = "A" * 4000
DATA_URL = f"data:image/png;base64,{IMAGE_DATA}"
CONVERSATIONS: dict[str, tuple[object, object, ConversationTokens]] = {
    "plain": ([{"role": "user", "content": "12345"}], None, ConversationTokens(0, 5 + PER_MESSAGE + PER_REPLY)),
    "a system prompt": ([], "123", ConversationTokens(3, 0)),
    "a system message": (
        [{"role": "system", "content": "123"}, {"role": "user", "content": "1"}],
        None,
        ConversationTokens(3 + PER_MESSAGE, 1 + PER_MESSAGE + PER_REPLY),
    ),
    "an image of OpenAI's": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}],
        None,
        ConversationTokens(0, MAX_IMAGE_TOKENS + 1 + 9 // 6 + PER_MESSAGE + PER_REPLY, MAX_IMAGE_TOKENS),
    ),
    "an image of Anthropic's": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE_DATA}}
                ],
            }
        ],
        None,
        ConversationTokens(0, MAX_IMAGE_TOKENS + PER_MESSAGE + PER_REPLY, MAX_IMAGE_TOKENS),
    ),
    "Gemini's parts": (
        [{"role": "user", "parts": [{"text": "12345"}, {"inlineData": {"mimeType": "image/png", "data": IMAGE_DATA}}]}],
        None,
        ConversationTokens(0, 5 + MAX_IMAGE_TOKENS + PER_MESSAGE + PER_REPLY, MAX_IMAGE_TOKENS),
    ),
    "bytes of boto3's": (
        [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}]}],
        None,
        ConversationTokens(0, MAX_IMAGE_TOKENS + PER_MESSAGE + PER_REPLY, MAX_IMAGE_TOKENS),
    ),
    "a call of a tool": (
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "now", "input": {"city": "Ulm"}}]}],
        None,
        ConversationTokens(0, 3 + 3 + 1 + PER_MESSAGE + PER_REPLY),
    ),
    "one text": ("12345", None, ConversationTokens(0, 5 + PER_MESSAGE + PER_REPLY)),
    "nothing": (None, None, ConversationTokens(0, 0)),
}


@pytest.mark.parametrize("what", CONVERSATIONS)
def test_a_conversation_is_counted_in_any_format(what: str) -> None:
    messages, system, expected = CONVERSATIONS[what]
    assert measure_conversation(messages, system, Letters()) == expected


def test_a_deep_conversation_is_walked_without_recursion() -> None:
    nested: object = "x"
    for _ in range(100_000):
        nested = [nested]
    counter: TokenCounter = Letters()
    assert (
        measure_conversation([{"role": "user", "content": nested}], None, counter).messages
        == 1 + PER_MESSAGE + PER_REPLY
    )
