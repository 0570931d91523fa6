"""Content that a result repeats in `structuredContent` reaches the model once, in every format."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats import registry
from fairlead_formats.messages.call import MAX_DEPTH, Carry, ModelCall
from fairlead_formats.messages.repeated_content import RepeatedContent
from fairlead_formats.registry import message_format

CONVERTING = sorted(set(registry.FORMATS) - {registry.MCP})
CALL = ModelCall("call_1", "t", {})
BYTES = random.Random(7).randbytes(3000)
DATA = base64.b64encode(BYTES).decode()
IMAGE: dict[str, Any] = {"type": "image", "data": DATA, "mimeType": "image/png"}
AUDIO: dict[str, Any] = {"type": "audio", "data": DATA, "mimeType": "audio/wav"}
BLOB: dict[str, Any] = {
    "type": "resource",
    "resource": {"uri": "file:///a.bin", "mimeType": "application/octet-stream", "blob": DATA},
}
LONG = "The quick brown fox jumps over the lazy dog, and the dog, being lazy, does not even look up. " * 3


def messages_json(name: str, result: dict[str, Any], carry: Carry | None = None) -> str:
    """The messages for the model as JSON."""
    made = message_format(name).write_results([CALL], [result], carry or Carry())
    return json.dumps(made.messages, ensure_ascii=False)


def count_of_bytes(text: str) -> int:
    """How often a text contains the image, in base64 of any form. The image is recognized by its last characters."""
    plain = text.replace("\\n", "").replace("\\r", "").replace("-", "+").replace("_", "/")
    return plain.count(DATA[-40:].rstrip("="))


def nest(value: Any) -> dict[str, Any]:
    return {"page": {"figures": [{"caption": "a map", "body": value}]}}


VARIANTS = {
    "as it is": DATA,
    "in lines": "\r\n".join(DATA[start : start + 76] for start in range(0, len(DATA), 76)),
    "in the other alphabet, without padding": base64.urlsafe_b64encode(BYTES).decode().rstrip("="),
    "as an address": f"data:image/png;base64,{DATA}",
    "in the middle of a text": f"before ![map](data:image/png;base64,{DATA}) behind",
    "as the SDK wraps it": {"type": "image", "data": DATA, "mimeType": "image/png", "annotations": None, "_meta": None},
}


@pytest.mark.parametrize("name", CONVERTING)
@pytest.mark.parametrize("block", [IMAGE, AUDIO, BLOB], ids=["image", "audio", "blob"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_media_of_the_content_are_not_repeated_in_structured_content(
    name: str, block: dict[str, Any], variant: str
) -> None:
    result = {"content": [block], "structuredContent": nest(VARIANTS[variant])}
    text = messages_json(name, result)
    assert count_of_bytes(text) == count_of_bytes(messages_json(name, {"content": [block]})) <= 1
    assert "a map" in text
    assert "block 1 of this result" in text
    if "middle" in variant:
        assert "before ![map](" in text


@pytest.mark.parametrize("name", CONVERTING)
def test_a_text_with_the_json_of_structured_content_loses_the_media_too(name: str) -> None:
    structured = nest(IMAGE)
    repeated = {"type": "text", "text": json.dumps(structured, indent=2)}
    text = messages_json(name, {"content": [IMAGE, repeated], "structuredContent": structured})
    assert count_of_bytes(text) == count_of_bytes(messages_json(name, {"content": [IMAGE]})) <= 1
    assert text.count("a map") == 1


@pytest.mark.parametrize("name", CONVERTING)
@pytest.mark.parametrize("carry", [Carry(), Carry(audio=True)], ids=["no audio", "audio"])
def test_audio_that_a_format_does_not_hold_is_a_line_without_its_bytes(name: str, carry: Carry) -> None:
    result = {"content": [AUDIO], "structuredContent": {"result": AUDIO}}
    text = messages_json(name, result, carry)
    holds = name == "gemini" or (carry.audio and name in ("openai-chat", "openai-functions", "azure-openai"))
    assert count_of_bytes(text) == (1 if holds else 0)
    assert holds or text.count("[audio: audio/wav, 3000 bytes, not shown]") == 1


@pytest.mark.parametrize("name", CONVERTING)
@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ([IMAGE], {"result": {**IMAGE, "annotations": None}}),
        ([IMAGE, {"type": "text", "text": "x"}], {"result": [IMAGE, {"type": "text", "text": "x", "_meta": None}]}),
        ([{"type": "text", "text": "sunny"}], {"result": "sunny"}),
        ([{"type": "text", "text": "5"}], {"result": 5}),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": '{"b":1}'}], {"result": ["a", {"b": 1}]}),
        ([{"type": "text", "text": "[1, 2]"}], {"result": [1, 2]}),
    ],
    ids=["a block", "blocks", "a text", "a number", "a list of blocks", "a list in one block"],
)
def test_a_wrapped_value_that_the_content_has_is_written_once(
    name: str, content: list[dict[str, Any]], structured: dict[str, Any]
) -> None:
    assert messages_json(name, {"content": content, "structuredContent": structured}) == messages_json(
        name, {"content": content}
    )


@pytest.mark.parametrize("name", CONVERTING)
@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ([{"type": "text", "text": "1"}], {"result": True}),
        ([{"type": "text", "text": "sunny"}], {"sky": "sunny"}),
        ([{"type": "text", "text": "a"}], {"result": ["a", "b"]}),
        ([{"type": "text", "text": "b"}, {"type": "text", "text": "a"}], {"result": ["a", "b"]}),
        ([IMAGE], {"other": base64.b64encode(BYTES[::-1]).decode()}),
    ],
    ids=["another type", "another name", "more", "another order", "other bytes"],
)
def test_structured_content_that_the_text_lacks_is_written(
    name: str, content: list[dict[str, Any]], structured: dict[str, Any]
) -> None:
    text = messages_json(name, {"content": content, "structuredContent": structured}).replace("\\", "")
    assert json.dumps(structured, separators=(",", ":"))[1:-1] in text.replace(": ", ":").replace(", ", ",")


@pytest.mark.parametrize("name", CONVERTING)
def test_a_long_text_is_written_once_with_its_place_in_the_structure(name: str) -> None:
    result = {"content": [{"type": "text", "text": LONG}], "structuredContent": {"title": "Fox", "body": LONG}}
    text = messages_json(name, result)
    assert text.count(LONG) == 1
    assert "Fox" in text
    assert "[block 1 of this result]" in text


def test_the_report_says_that_a_part_is_written_once() -> None:
    result = {"content": [IMAGE], "structuredContent": nest(DATA)}
    report = message_format("anthropic").write_results([CALL], [result]).report
    assert any("were replaced by marks" in loss.why and not loss.lossy for loss in report)


def test_mcp_results_stay_as_they_are() -> None:
    result = {"content": [IMAGE], "structuredContent": {"result": IMAGE}}
    assert message_format("mcp").write_results([CALL], [result]).messages[0]["result"] == result


def test_media_too_large_for_structured_content_do_not_cost_the_model_what_is_beside_them() -> None:
    data = base64.b64encode(b"\0" * (1 << 20)).decode()
    result = {"content": [{**IMAGE, "data": data}], "structuredContent": {"image": data, "caption": "a map"}}
    assert "a map" in messages_json("anthropic", result)


@pytest.mark.parametrize("alphabet", ["other", "address"])
def test_an_image_in_another_writing_of_base64_is_an_image(alphabet: str) -> None:
    data = VARIANTS["in the other alphabet, without padding" if alphabet == "other" else "as an address"]
    assert messages_json("anthropic", {"content": [{**IMAGE, "data": data}]}) == messages_json(
        "anthropic", {"content": [IMAGE]}
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.sampled_from([DATA, LONG]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=examples(200), deadline=None)
@given(value=values)
def test_structured_values_are_taken_out_only_where_a_block_holds_them(value: Any) -> None:
    def expectation(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: expectation(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [expectation(inner) for inner in item]
        marks = {DATA: "[block 1 of this result: image/png, 3000 bytes]", LONG: "[block 2 of this result]"}
        return marks.get(item, item) if isinstance(item, str) else item

    assert RepeatedContent([IMAGE, {"type": "text", "text": LONG}]).replace_repeats(value) == expectation(value)


def test_a_value_beyond_the_bounds_comes_back_unread() -> None:
    deep: Any = DATA
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    wide = [DATA, *range(100_001)]
    for value in (deep, wide):
        repeats = RepeatedContent([IMAGE])
        assert repeats.replace_repeats(value) is value
        assert repeats.replaced == 0


@settings(max_examples=examples(100), deadline=None)
@given(
    blocks=st.lists(
        values | st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "resource"])}), max_size=3
    ),
    value=values,
)
def test_blocks_of_any_kind_can_be_looked_through(blocks: list[Any], value: Any) -> None:
    repeats = RepeatedContent(blocks)
    repeats.only_marks(repeats.replace_repeats(value))
    repeats.repeats_all(value)
