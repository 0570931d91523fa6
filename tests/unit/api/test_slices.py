"""Work in slices has the result of the same work without pauses."""

from __future__ import annotations

from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.slices import (
    SLICE,
    empty_in_slices,
    finish,
    invert_in_slices,
    list_in_slices,
    order_in_slices,
    table_in_slices,
)

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers()), max_size=4 * SLICE)


@given(PAIRS)
def test_items_are_sorted_stably(pairs: list[tuple[int, int]]) -> None:
    assert finish(order_in_slices(pairs, itemgetter(0))) == sorted(pairs, key=itemgetter(0))


@given(PAIRS)
def test_lists_tables_and_inversions_are_those_of_one_go(pairs: list[tuple[int, int]]) -> None:
    assert finish(list_in_slices(iter(pairs))) == pairs
    assert finish(table_in_slices(iter(pairs))) == dict(pairs)
    assert finish(invert_in_slices(pairs)) == {
        key: [value for listed, value in pairs if listed == key] for key, _ in pairs
    }


def test_work_in_slices_pauses_at_least_with_every_slice() -> None:
    many = [(number, number) for number in range(10 * SLICE)]
    for work in (
        order_in_slices(many, itemgetter(0)),
        list_in_slices(many),
        table_in_slices(many),
        invert_in_slices(many),
    ):
        assert sum(1 for _ in work) >= 10


def test_a_list_is_emptied_slice_by_slice() -> None:
    many = [*range(3 * SLICE)]
    assert [len(many) for _ in empty_in_slices(many)] == [2 * SLICE, SLICE, 0]
