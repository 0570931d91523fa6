"""Token costs of labelled tasks with a list and with search, as `hack/bench search --only account` prints them."""

from __future__ import annotations

import pytest

from fairlead_formats.tokens.account import CacheState
from search.account import Accounts, FoundQuery, tasks


@pytest.fixture(scope="module")
def accounts() -> Accounts:
    return Accounts(1)


def test_a_list_is_cheaper_for_twenty_tools_and_search_saves_95_percent_at_a_thousand(accounts: Accounts) -> None:
    assert accounts.of(20, 1, 0, None).saved < 0
    assert accounts.of(1000, 1, 0, None).saved >= 95


def test_search_costs_less_from_the_crossover_on(accounts: Accounts) -> None:
    turned = accounts.crossover(1, 2000, None)
    assert accounts.of(turned - 1, 1, 2000, None).saved <= 0 < accounts.of(turned, 1, 2000, None).saved


def test_a_warm_cache_makes_lists_of_more_tools_worth_it(accounts: Accounts) -> None:
    assert accounts.crossover(1, 0, None) < accounts.crossover(1, 0, CacheState(warm=True))


def test_queries_become_tasks_of_as_many_calls_as_are_asked_for() -> None:
    queries = [FoundQuery(1, rank) for rank in range(7)]
    assert [[step.results for step in steps] for steps in tasks(queries, 3)] == [[0, 1, 2], [3, 4, 5]]
    assert [[step.results for step in steps] for steps in tasks(queries[:2], 3)] == [[0, 1, 0]]
    assert len([*tasks(queries, 1)]) == 7
