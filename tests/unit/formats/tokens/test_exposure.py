"""Token costs of a task with listed tools and with search, and which of them is cheapest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead_formats.tokens.account import CacheState, SearchTokens, TaskShape, account_of_list, account_of_search
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.exposure import LIST, SEARCH, TIER, ExposedTools, advise, search_answer_tokens
from fairlead_formats.tokens.fit import Fit
from fairlead_formats.tokens.models import ContextWindow, Family
from fairlead_formats.tokens.prices import TokenPrices, prices_of
from fairlead_formats.tokens.routes import PlanLimits, RouteModel

ONE = Family("one", 1000, 1000, 0)
PRICES = TokenPrices(read=100, write=1250, output=5000, min_cached_prompt=0)
SEARCHED = SearchTokens(query=20, results=500, wrapped_call=40, wrapped_result=60)
TASK = TaskShape(turns=3, calls=2, searches=1, conversation=1000)
COLD = CacheState()
WARM = CacheState(warm=True)

few = st.integers(0, 20)
tokens = st.integers(0, 100_000)
tasks = st.builds(TaskShape, turns=st.integers(1, 20), calls=few, searches=few, conversation=tokens)
caches = st.sampled_from([None, COLD, WARM])


def fit(window: int = 1_000_000, max_tools: int | None = None, tool_tokens: int | None = None) -> Fit:
    model = RouteModel("m", ContextWindow(window, source="configured"), family=ONE)
    return Fit(model, ConversationTokens(0, 0), PlanLimits(max_tools, tool_tokens, reserved_output=0))


def every(size: int, of: int = 100) -> ExposedTools:
    return ExposedTools(LIST, (of,) * size, size)


def router(reachable: int) -> ExposedTools:
    return ExposedTools(
        SEARCH, (200, 200, 200), reachable, other_tokens=70, results=search_answer_tokens((100,) * reachable)
    )


def test_a_list_is_read_with_the_conversation_in_every_turn() -> None:
    spent = account_of_list(TASK, 10_000, PRICES, None)
    assert (spent.turns, spent.tokens, spent.priced, spent.largest) == (3, 33_000, 33_000, 11_000)


def test_a_search_is_a_turn_more_and_its_results_are_read_by_all_that_follow() -> None:
    spent = account_of_search(TASK, 600, SEARCHED, PRICES, None)
    prompts = [1600, 2120, 2320, 2320]
    written = 20 + 2 * 40
    assert (spent.turns, spent.read, spent.written, spent.largest) == (4, sum(prompts), written, 2320)
    assert (spent.tokens, spent.priced) == (8460, 8360 + 5 * written)


def test_a_cold_cache_is_written_once_and_a_warm_one_is_only_read() -> None:
    assert account_of_list(TASK, 10_000, PRICES, COLD).priced == 11_000 * 1.25 + 2 * 11_000 * 0.1
    assert account_of_list(TASK, 10_000, PRICES, WARM).priced == 3 * 11_000 * 0.1


def test_of_a_prompt_that_grows_the_beginning_alone_is_cached() -> None:
    spent = account_of_search(TASK, 600, SEARCHED, PRICES, COLD)
    written = 5 * 100
    assert spent.priced == (1600 + 520 + 200) * 1.25 + (1600 + 2120 + 2320) * 0.1 + written


def test_prompts_that_are_too_short_for_the_cache_pay_in_full() -> None:
    short = replace(PRICES, min_cached_prompt=11_001)
    assert (
        account_of_list(TASK, 10_000, short, COLD).priced == account_of_list(TASK, 10_000, short, WARM).priced == 33_000
    )
    grown = account_of_search(TASK, 600, SEARCHED, replace(PRICES, min_cached_prompt=2000), WARM)
    assert grown.priced == 1600 + (2120 + 200) * 1.25 + (2120 + 2320) * 0.1 + 500


@given(tasks, tokens, tokens, caches)
def test_definitions_added_to_a_list_never_cost_less(
    task: TaskShape, first: int, other: int, cache: CacheState | None
) -> None:
    less, more = sorted((first, other))
    assert account_of_list(task, less, PRICES, cache).priced <= account_of_list(task, more, PRICES, cache).priced
    assert (
        account_of_search(task, less, SEARCHED, PRICES, cache).priced
        <= account_of_search(task, more, SEARCHED, PRICES, cache).priced
    )


@given(tasks, tokens, caches)
def test_a_longer_task_never_costs_less(task: TaskShape, definitions: int, cache: CacheState | None) -> None:
    for longer in (
        replace(task, turns=task.turns + 1),
        replace(task, searches=task.searches + 1),
        replace(task, calls=task.calls + 1),
        replace(task, conversation=task.conversation + 100),
    ):
        before = (
            account_of_list(task, definitions, PRICES, cache),
            account_of_search(task, definitions, SEARCHED, PRICES, cache),
        )
        after = (
            account_of_list(longer, definitions, PRICES, cache),
            account_of_search(longer, definitions, SEARCHED, PRICES, cache),
        )
        assert all(cost.priced <= other.priced for cost, other in zip(before, after, strict=True))


@given(tasks, tokens)
def test_a_cache_changes_only_the_price(task: TaskShape, definitions: int) -> None:
    for cache in (COLD, WARM):
        cached = account_of_search(task, definitions, SEARCHED, PRICES, cache)
        assert replace(cached, priced=0) == replace(
            account_of_search(task, definitions, SEARCHED, PRICES, None), priced=0
        )
    assert (
        account_of_list(task, definitions, PRICES, WARM).priced
        <= account_of_list(task, definitions, PRICES, COLD).priced
    )


def test_an_answer_to_a_search_has_eight_tools_at_most() -> None:
    assert search_answer_tokens(()) == 20
    assert search_answer_tokens((100, 200)) == 20 + 300 + 2 * 18
    assert search_answer_tokens((100,) * 8) == search_answer_tokens((100,) * 1000) == 20 + 800 + 8 * 18


def test_prices_are_those_of_the_model_by_its_name() -> None:
    assert prices_of("us.anthropic.claude-sonnet-5").write == 1250
    assert [prices_of(name).write for name in ("gpt-5-mini", "openai/gpt-5.5", "gpt-5.6-sol", "gpt-6")] == [
        1000,
        1000,
        1250,
        1250,
    ]
    assert [prices_of(name).read for name in ("gpt-5.1", "gpt-4.1", "gpt-4o-mini")] == [100, 250, 500]
    assert prices_of("unheard-of") == TokenPrices()


def test_the_cheapest_way_turns_with_the_number_of_tools() -> None:
    def cheapest(count: int) -> str:
        advice = advise(fit(), TaskShape(turns=2, calls=1, searches=1), [every(count), router(count)], PRICES, None)
        assert advice.cheapest is not None
        return advice.cheapest.way

    assert [cheapest(count) for count in (5, 20, 40, 5000)] == [LIST, LIST, SEARCH, SEARCH]


def test_the_advice_names_what_is_saved_and_what_a_tier_hides() -> None:
    tier = ExposedTools(TIER, (100,) * 3, 3, tier="fast")
    shape = TaskShape(turns=2, calls=1, searches=0)
    advice = advise(fit(), shape, [every(100), tier, replace(router(100), other_tokens=0)], PRICES, None)
    assert advice.cheapest is not None
    assert (advice.cheapest.way, advice.cheapest.tier, advice.cheapest.priced_tokens) == (TIER, "fast", 600)
    assert advice.advice == (
        "tier fast is cheapest: the task costs 600 input tokens, "
        "97.0 % less than with a list of all 100 tools (20,000). "
        "It hides 97 tools; with all of them search at /router/mcp is cheapest (1,580)"
    )


def test_the_advice_says_of_one_hidden_tool_that_it_is_one() -> None:
    tier = ExposedTools(TIER, (100,) * 4, 4, tier="fast")
    shape = TaskShape(turns=2, calls=1, searches=0)
    advice = advise(fit(), shape, [every(5), tier], PRICES, None).advice
    assert "It hides 1 tool; with it a list of all 5 tools is cheapest" in advice


def test_of_two_that_cost_the_same_the_one_that_shows_more_is_taken() -> None:
    tier = ExposedTools(TIER, (1000,), 1, tier="fast")
    advice = advise(fit(), TASK, [tier, every(10)], PRICES, None)
    assert advice.cheapest is not None
    assert advice.cheapest.way == LIST


def test_an_exposure_beyond_the_window_or_a_limit_is_never_advised() -> None:
    ways = [every(1000), router(1000)]
    shape = TaskShape(turns=1, calls=0, searches=200)
    assert [each.fits for each in advise(fit(), shape, ways, PRICES, None).options] == [True, True]
    assert [each.fits for each in advise(fit(100_000), shape, ways, PRICES, None).options] == [True, False]
    short = replace(shape, searches=1)
    assert [each.fits for each in advise(fit(99_999), short, ways, PRICES, None).options] == [False, True]
    assert [each.fits for each in advise(fit(max_tools=3), short, ways, PRICES, None).options] == [False, True]
    none = advise(fit(500), short, ways, PRICES, None)
    assert none.cheapest is None
    assert none.advice == "none of the ways to show the tools fits m: a prompt may have at most 500 tokens"


def test_the_limit_against_every_exposure_is_named_where_none_fits() -> None:
    ways, short = [every(1000), router(1000)], TaskShape(turns=1, calls=0, searches=1)
    least = advise(fit(), short, ways, PRICES, None).options[1]
    assert advise(fit(max_tools=1), short, ways, PRICES, None).advice == (
        "none of the ways to show the tools fits m: "
        f"search at /router/mcp lists {least.listed} tools, and 1 tool is allowed"
    )
    assert advise(fit(tool_tokens=20), short, ways, PRICES, None).advice == (
        "none of the ways to show the tools fits m: "
        f"the tools of search at /router/mcp have {least.tool_tokens} tokens, and 20 are allowed"
    )
