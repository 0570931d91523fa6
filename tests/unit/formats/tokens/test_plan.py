"""Planning: the chosen model and tools, the tools that are left out and why, and messages of refusals."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from examples import examples
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import Candidate, cost
from fairlead_formats.tokens.models import (
    DEFAULT_WINDOW,
    ContextWindow,
    ContextWindows,
    Family,
    bare_name,
    family_of,
    from_models_answer,
    shipped_windows,
)
from fairlead_formats.tokens.outcome import Plan, PlanRefused
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import PlanLimits, RouteModel

ONE = Family("one", 1000, 1000, 0)
NONE = ConversationTokens(0, 0)
FREE = PlanLimits(reserved_output=0)
Given: TypeAlias = tuple[list[RouteModel], list[Candidate], ConversationTokens, PlanLimits]


def model(name: str, context: int, **more: Any) -> RouteModel:
    return RouteModel(name, ContextWindow(context, source="configured"), family=more.pop("family", ONE), **more)


def tools(*sizes: int, pinned: tuple[int, ...] = ()) -> list[Candidate]:
    return [Candidate(f"t{index}", size, pinned=index in pinned) for index, size in enumerate(sizes)]


def make_plan(
    models: list[RouteModel], candidates: list[Candidate], talk: ConversationTokens = NONE, limits: PlanLimits = FREE
) -> Plan:
    answer = plan(models, candidates, talk, limits, "letters")
    assert isinstance(answer, Plan), answer
    return answer


def plan_refusal(
    models: list[RouteModel], candidates: list[Candidate], talk: ConversationTokens = NONE, limits: PlanLimits = FREE
) -> PlanRefused:
    answer = plan(models, candidates, talk, limits, "letters")
    assert isinstance(answer, PlanRefused), answer
    return answer


def test_the_first_model_that_holds_everything_is_taken() -> None:
    chosen = make_plan([model("a", 100), model("b", 100)], tools(40, 60))
    assert (chosen.model, chosen.tools, chosen.cut, chosen.skipped) == ("a", ("t0", "t1"), (), ())


def test_a_model_that_is_too_small_is_skipped_for_a_larger_one() -> None:
    chosen = make_plan([model("small", 99), model("large", 100)], tools(40, 60))
    assert (chosen.model, chosen.tools, chosen.cut) == ("large", ("t0", "t1"), ())
    assert [(skip.model, skip.lacking) for skip in chosen.skipped] == [("small", 1)]


def test_the_numbers_add_up() -> None:
    family = Family("f", 2000, 3000, 7)
    limits = PlanLimits(reserved_output=11)
    chosen = make_plan([model("a", 1000, family=family)], tools(10, 20), ConversationTokens(5, 100, media=50), limits)
    numbers = chosen.numbers
    assert (numbers.tool_tokens, numbers.system_prompt_tokens, numbers.message_tokens) == (97, 10, 150)
    assert numbers.available == 1000 - 97 - 10 - 150 - 11
    assert (numbers.context_window, numbers.counter, numbers.family) == (1000, "letters", "f")


def test_tools_that_fit_no_model_are_cut_where_most_are_kept() -> None:
    chosen = make_plan([model("a", 50), model("b", 90)], tools(40, 60, 40))
    assert (chosen.model, chosen.tools) == ("b", ("t0", "t2"))
    assert [(cut.name, cut.reason) for cut in chosen.cut] == [("t1", "contextWindow")]


def test_a_pinned_tool_is_never_cut_by_a_budget() -> None:
    chosen = make_plan([model("a", 100)], tools(40, 40, 60, pinned=(2,)))
    assert chosen.tools == ("t0", "t2")
    beyond = make_plan([model("a", 100)], tools(40, 40, 60, pinned=(2,)), limits=PlanLimits(0, 10, 0))
    assert beyond.tools == ("t2",)


def test_limits_cut_with_their_names() -> None:
    chosen = make_plan([model("a", 100)], tools(1, 1, 1), limits=PlanLimits(max_tools=2, reserved_output=0))
    assert [(cut.name, cut.reason) for cut in chosen.cut] == [("t2", "maxTools")]
    chosen = make_plan([model("a", 100)], tools(6, 6, 4), limits=PlanLimits(tool_tokens=10, reserved_output=0))
    assert chosen.tools == ("t0", "t2")
    assert [(cut.name, cut.reason) for cut in chosen.cut] == [("t1", "toolTokens")]


def test_the_most_tools_that_a_provider_takes_bound_a_plan() -> None:
    chosen = make_plan([model("a", 100, max_tools=1), model("b", 100)], tools(1, 1))
    assert (chosen.model, chosen.tools) == ("b", ("t0", "t1"))


def test_input_may_be_bounded_below_the_window() -> None:
    narrow = RouteModel("a", ContextWindow(100, max_input=50), family=ONE)
    assert make_plan([narrow], tools(30, 30)).tools == ("t0",)


def test_descriptions_are_shortened_before_a_tool_is_cut() -> None:
    candidates = [Candidate("a", 60, 40), Candidate("b", 60, 60)]
    limits = PlanLimits(reserved_output=0, shorten=True)
    chosen = make_plan([model("m", 100)], candidates, limits=limits)
    assert (chosen.tools, chosen.shortened) == (("a", "b"), ("a",))
    assert chosen.numbers.tool_tokens == 100
    assert make_plan([model("m", 100)], candidates).tools == ("a",)
    assert make_plan([model("m", 120)], candidates, limits=limits).shortened == ()


def test_another_model_is_tried_before_descriptions_are_shortened() -> None:
    limits = PlanLimits(reserved_output=0, shorten=True)
    chosen = make_plan([model("a", 100), model("b", 200)], [Candidate("t", 150, 50)], limits=limits)
    assert (chosen.model, chosen.shortened) == ("b", ())


def test_of_one_name_the_first_counts() -> None:
    assert make_plan([model("a", 100)], [Candidate("t", 10), Candidate("t", 200)]).tools == ("t",)


def test_no_tools_at_all_is_a_plan_too() -> None:
    chosen = make_plan([model("a", 100)], [], ConversationTokens(0, 90))
    assert (chosen.tools, chosen.numbers.tool_tokens, chosen.numbers.available) == ((), 0, 10)


def test_a_conversation_that_fits_nowhere_is_refused_with_a_size_that_would_fit() -> None:
    answer = plan_refusal(
        [model("a", 50), model("b", 100)], tools(10), ConversationTokens(20, 100), PlanLimits(reserved_output=30)
    )
    assert answer.reason == "the conversation does not fit: b, the model with the most room, lacks 60 tokens"
    assert answer.would_fit == ("a model that takes 130 tokens of input", "messages shorter by 60 tokens")
    assert [skip.without_tools for skip in answer.considered] == [True, True]


def test_pinned_tools_that_fit_nowhere_are_refused() -> None:
    answer = plan_refusal([model("a", 100)], tools(80, 80, 1, pinned=(0, 1)), limits=PlanLimits(reserved_output=10))
    assert answer.reason == "the pinned tools do not fit: a, the model with the most room, lacks 70 tokens"
    assert "the 1 smallest of the 2 pinned tools" in answer.would_fit
    answer = plan_refusal([model("a", 100, max_tools=1)], tools(1, 1, pinned=(0, 1)))
    assert answer.reason == "2 tools are pinned, more than the 1 that a takes"
    assert answer.would_fit == ("at most 1 pinned tools",)


def test_no_tool_that_fits_is_refused() -> None:
    answer = plan_refusal(
        [model("a", 100)], [Candidate("t", 150, 40), Candidate("u", 200)], limits=PlanLimits(reserved_output=60)
    )
    assert answer.reason == "the smallest tool does not fit: a, the model with the most room, lacks 110 tokens"
    assert answer.would_fit == ("a model that takes 150 tokens of input", "shortened descriptions")
    answer = plan_refusal([model("a", 100)], tools(50), limits=PlanLimits(tool_tokens=20, reserved_output=0))
    assert answer.reason == "the limits allow no tool: toolTokens 20"
    assert answer.would_fit == ("toolTokens of at least 50",)


def test_a_route_without_a_model_is_refused() -> None:
    assert plan_refusal([], tools(1)).reason == "the route names no model"


def test_the_stricter_of_two_limits_counts() -> None:
    both = PlanLimits(max_tools=5, reserved_output=10).combine_with(
        PlanLimits(max_tools=3, tool_tokens=7, reserved_output=20)
    )
    assert both == PlanLimits(3, 7, 20, shorten=False, reserved_floor=20)


def test_reserved_output_tokens_of_a_route_can_be_lowered_in_the_route_alone() -> None:
    reserved = PlanLimits(reserved_output=30)
    answer = plan_refusal([model("a", 100)], tools(80), limits=reserved.combine_with(PlanLimits(reserved_output=10)))
    assert "reservedOutputTokens of 20 instead of 30" in answer.would_fit
    answer = plan_refusal([model("a", 100)], tools(95), limits=reserved.combine_with(PlanLimits(reserved_output=10)))
    assert "reservedOutputTokens of 5 instead of 30 in the route" in answer.would_fit


def follow_hint(hint: str, given: Given) -> Given:
    """The request after following a hint. Every number in the hint has to be valid."""

    def number(pattern: str) -> int | None:
        match = re.search(pattern, hint)
        return int(match[1]) if match else None

    models, candidates, talk, limits = given
    if (most := number(r"a model that takes (\d+) tokens")) is not None:
        models = [replace(m, window=ContextWindow(most + limits.reserved_output)) for m in models]
    if (less := number(r"messages shorter by (\d+) tokens")) is not None:
        assert less <= talk.messages
        talk = replace(talk, messages=talk.messages - less)
    if (less := number(r"messages and system prompt shorter by (\d+) tokens together")) is not None:
        assert talk.messages < less <= talk.messages + talk.system
        talk = replace(talk, messages=0, system=talk.system + talk.messages - less)
    if (reserve := number(r"reservedOutputTokens of (\d+) instead")) is not None:
        assert 1 <= reserve < limits.reserved_output
        limits = replace(limits, reserved_output=reserve)
    if (pins := number(r"(?:the|at most) (\d+) (?:smallest|pinned)")) is not None:
        pinned = sorted((c for c in candidates if c.pinned), key=lambda c: cost(c, limits.shorten))
        assert 1 <= pins < len(pinned)
        candidates = [c for c in candidates if not c.pinned or c in pinned[:pins]]
    if "shortened descriptions" in hint:
        limits = replace(limits, shorten=True)
    if (least := number(r"maxTools of at least (\d+)")) is not None:
        limits = replace(limits, max_tools=least)
    if (least := number(r"toolTokens of at least (\d+)")) is not None:
        limits = replace(limits, tool_tokens=least)
    if "a model that takes tools" in hint:
        models = [replace(m, max_tools=1000) for m in models]
    return models, candidates, talk, limits


limits_of_all_kinds = st.builds(
    PlanLimits, st.none() | st.integers(0, 5), st.none() | st.integers(0, 99), st.integers(0, 50), st.booleans()
)
sizes = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.booleans()), max_size=12)


@settings(max_examples=examples(600), deadline=None)
@given(
    sizes=sizes,
    windows=st.lists(st.tuples(st.integers(1, 200), st.none() | st.integers(1, 200)), min_size=1, max_size=3),
    provider=st.none() | st.integers(0, 3),
    talk=st.builds(ConversationTokens, st.integers(0, 60), st.integers(0, 100)),
    limits=limits_of_all_kinds,
    factor=st.sampled_from((1000, 1300)),
)
def test_the_advice_of_a_refused_plan_gives_a_plan(
    sizes: list[tuple[int, int, bool]],
    windows: list[tuple[int, int | None]],
    provider: int | None,
    talk: ConversationTokens,
    limits: PlanLimits,
    factor: int,
) -> None:
    family = Family("f", 1000, factor, 9)
    candidates = [Candidate(f"t{i}", a, min(a, b), pinned) for i, (a, b, pinned) in enumerate(sizes)]
    models = [
        RouteModel(f"m{i}", ContextWindow(context, most), max_tools=provider, family=family)
        for i, (context, most) in enumerate(windows)
    ]
    answer = plan(models, candidates, talk, limits, "letters")
    for hint in answer.would_fit if isinstance(answer, PlanRefused) else ():
        again = follow_hint(hint, (models, candidates, talk, limits))
        assert isinstance(plan(*again, "letters"), Plan), hint


@settings(max_examples=examples(300), deadline=None)
@given(
    sizes=sizes,
    windows=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    talk=st.integers(0, 100),
    limits=limits_of_all_kinds,
    factor=st.integers(400, 2000),
)
def test_a_plan_keeps_its_promises(
    sizes: list[tuple[int, int, bool]], windows: list[int], talk: int, limits: PlanLimits, factor: int
) -> None:
    family = Family("f", 1100, factor, 9)
    candidates = [Candidate(f"t{i}", a, min(a, b), pinned) for i, (a, b, pinned) in enumerate(sizes)]
    models = [model(f"m{i}", size, family=family) for i, size in enumerate(windows)]
    answer = plan(models, candidates, ConversationTokens(0, talk), limits, "letters")
    assert answer == plan(models, candidates, ConversationTokens(0, talk), limits, "letters")
    if isinstance(answer, PlanRefused):
        assert answer.would_fit
        return
    names = [tool.name for tool in candidates]
    assert sorted([*answer.tools, *(cut.name for cut in answer.cut)]) == sorted(names)
    assert list(answer.tools) == [name for name in names if name in answer.tools]
    assert {tool.name for tool in candidates if tool.pinned} <= set(answer.tools)
    assert answer.numbers.available >= 0
    spent = answer.numbers.tool_tokens + answer.numbers.message_tokens + answer.numbers.reserved_output_tokens
    assert answer.numbers.available == answer.numbers.context_window - spent
    free = [tool for tool in candidates if tool.name in answer.tools and not tool.pinned]
    if free and limits.max_tools is not None:
        assert len(answer.tools) <= limits.max_tools
    if free and limits.tool_tokens is not None:
        assert answer.numbers.tool_tokens <= limits.tool_tokens


@pytest.mark.parametrize(
    ("name", "context", "source"),
    [
        ("gpt-4o", 128_000, "file"),
        ("openai/gpt-4o-2026-01-01", 128_000, "file, as gpt-4o"),
        ("gpt-4-0613", 8_192, "file, as gpt-4"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, "file, as claude-sonnet-4-5"),
        ("claude-opus-5", 1_000_000, "file"),
        ("models/gemini-2.5-flash-002", 1_048_576, "file, as gemini-2.5-flash"),
        ("gpt-50", DEFAULT_WINDOW, "default"),
        ("", DEFAULT_WINDOW, "default"),
        ("Qwen/Qwen3-8B", 40_960, "live"),
        ("my-gpt", 9_000, "configured"),
    ],
)
def test_a_window_is_known_with_where_from(name: str, context: int, source: str) -> None:
    windows = ContextWindows({"my-gpt": 9_000}, {"qwen3-8b": ContextWindow(40_960), "my-gpt": 1})
    window = windows.window(name)
    assert (window.context, window.source) == (context, source)


def test_the_file_of_windows_is_dated_and_sound() -> None:
    file = shipped_windows()
    assert file.date == "2026-11-10"
    assert all(4096 < size <= 10_000_000 for size in file.models.values())
    assert all(bare_name(name) == name for name in file.models)
    assert ContextWindows().window("gpt-5").max_input == 272_000


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"data": [{"id": "Qwen/Qwen3-8B", "max_model_len": 40960}]}, {"Qwen/Qwen3-8B": ContextWindow(40960)}),
        ({"data": [{"id": "a", "context_length": 1000}]}, {"a": ContextWindow(1000)}),
        (
            {"models": [{"name": "models/gemini-3-pro", "inputTokenLimit": 100, "outputTokenLimit": 10}]},
            {"models/gemini-3-pro": ContextWindow(110, 100)},
        ),
        (
            {"data": [{"id": "claude-x", "max_input_tokens": 100, "max_tokens": 10}]},
            {"claude-x": ContextWindow(110, 100)},
        ),
        ({"data": [{"id": "a"}, {"id": 5, "max_model_len": 1}, 7, {"id": "b", "max_model_len": -1}]}, {}),
        ({"data": {"id": "a"}}, {}),
        ({"data": [{"id": "a", "max_model_len": True}]}, {}),
        (None, {}),
        ([], {}),
    ],
)
def test_a_servers_answer_about_its_models_is_read(answer: object, expected: dict[str, ContextWindow]) -> None:
    assert from_models_answer(answer) == expected


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-5.1", "openai"),
        ("o3-mini", "openai"),
        ("azure/gpt-4o", "openai"),
        ("claude-3-5-sonnet-20241022", "claude-3"),
        ("claude-sonnet-4-5", "claude-4"),
        ("claude-opus-4-20250514", "claude-4"),
        ("us.anthropic.claude-opus-4-6-v1:0", "claude-4"),
        ("claude-opus-4-7", "claude-4.7"),
        ("claude-haiku-5-5", "claude-4.7"),
        ("models/gemini-3-pro", "gemini"),
        ("Qwen/Qwen3-8B", "qwen"),
        ("deepseek-v4-pro", "deepseek"),
        ("meta.llama3-3-70b-instruct-v1:0", "llama"),
        ("opus", "unknown"),
    ],
)
def test_a_model_belongs_to_a_family(name: str, family: str) -> None:
    assert family_of(name).name == family
