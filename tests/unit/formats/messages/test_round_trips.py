"""Properties that hold for every message format, tested with generated calls and results."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats import registry
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.names import Names
from fairlead_formats.registry import message_format
from fairlead_formats.translate import match, translate_message, translate_results

FORMATS = sorted(registry.FORMATS)
WITH_IDS = [name for name in FORMATS if name != registry.OPENAI_FUNCTIONS]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
tool_names = st.sampled_from(["weather__now", "files/read file", "ünïcode tool", "x" * 80, "9lives", "a.b", "a_b"])
idents = st.from_regex(r"[a-zA-Z0-9_-]{1,40}", fullmatch=True)


@st.composite
def calls_of_a_message(draw: st.DrawFn) -> list[ModelCall]:
    ids = draw(st.lists(idents, min_size=1, max_size=4, unique=True))
    return [ModelCall(ident, draw(tool_names), draw(objects)) for ident in ids]


base64s = st.binary(min_size=1, max_size=12).map(lambda data: base64.b64encode(data).decode())
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("image"), "data": base64s, "mimeType": st.just("image/png")}),
    st.fixed_dictionaries({"type": st.just("audio"), "data": base64s, "mimeType": st.just("audio/wav")}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": st.just("file:///a"), "name": texts}),
    st.fixed_dictionaries(
        {"type": st.just("resource"), "resource": st.fixed_dictionaries({"uri": texts, "text": texts})}
    ),
)
results = st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=4), "isError": st.booleans()}, optional={"structuredContent": values}
)


def members_of(calls: list[ModelCall]) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("name", WITH_IDS)
@settings(max_examples=examples(25), deadline=None)
@given(calls=calls_of_a_message())
def test_calls_that_are_written_are_read_back_equal(name: str, calls: list[ModelCall]) -> None:
    names = Names(call.name for call in calls)
    message = message_format(name).write_calls(calls, names)
    read: Any = message if len(message) > 1 else message[0]
    assert members_of(message_format(name).parse_calls(read, names)) == members_of(calls)


@pytest.mark.parametrize("source", WITH_IDS)
@settings(max_examples=examples(25), deadline=None)
@given(calls=calls_of_a_message(), target=st.sampled_from(WITH_IDS))
def test_calls_cross_from_any_format_to_any_other(source: str, calls: list[ModelCall], target: str) -> None:
    names = Names(call.name for call in calls)
    message = message_format(source).write_calls(calls, names)
    translated = translate_message(message if len(message) > 1 else message[0], source, target, read=names, write=names)
    there = list(translated.messages)
    read: Any = there if len(there) > 1 else there[0]
    assert members_of(message_format(target).parse_calls(read, names)) == members_of(calls)


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """The result without empty texts and a structured null, which formats may leave out."""
    blocks = [block for block in result["content"] if block != {"type": "text", "text": ""}]
    structured = {} if result.get("structuredContent") is None else {"structuredContent": result["structuredContent"]}
    return {"content": blocks, "isError": result["isError"], **structured}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(25), deadline=None)
@given(calls=calls_of_a_message(), data=st.data())
def test_a_result_without_a_loss_report_is_read_back_equal(
    name: str, calls: list[ModelCall], data: st.DataObject
) -> None:
    format_ = message_format(name)
    given_results = [data.draw(results) for _ in calls]
    written = format_.write_results(calls, given_results)
    msgspec.json.encode(written)
    back, strays = match(calls, format_.parse_results(list(written.messages)))
    assert strays == []
    reported = {loss.call for loss in written.report}
    for call, result, read_back in zip(calls, given_results, back, strict=True):
        assert read_back is not None
        if call.id not in reported:
            assert plain(dict(read_back)) == plain(result)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(25), deadline=None)
@given(calls=calls_of_a_message(), data=st.data())
def test_every_call_is_answered_once_and_in_order(name: str, calls: list[ModelCall], data: st.DataObject) -> None:
    given_results = [data.draw(st.none() | results) for _ in calls]
    written = message_format(name).write_results(calls, given_results)
    answered = [call for call, result in zip(calls, given_results, strict=True) if result is not None]
    assert list(written.pending) == [call.id for call in calls if call not in answered]
    parsed = message_format(name).parse_results(list(written.messages))
    if name == registry.OPENAI_FUNCTIONS:
        assert [result.name for result in parsed] == [call.name for call in answered]
    else:
        assert [result.id for result in parsed] == [call.id for call in answered]


@settings(max_examples=examples(25), deadline=None)
@given(calls=calls_of_a_message(), data=st.data(), ends=st.tuples(*[st.sampled_from(WITH_IDS)] * 2))
def test_results_cross_from_any_format_to_any_other(
    calls: list[ModelCall], data: st.DataObject, ends: tuple[str, str]
) -> None:
    source, target = ends
    here = message_format(source).write_results(calls, [data.draw(results) for _ in calls])
    there = translate_results(calls, list(here.messages), source, target)
    assert there.pending == ()
    parsed = message_format(target).parse_results(list(there.messages))
    assert [result.id for result in parsed] == [call.id for call in calls]
