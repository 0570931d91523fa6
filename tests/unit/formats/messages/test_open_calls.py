"""Matching of results to the calls that wait for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_formats.messages.call import ModelCall, ToolResult
from fairlead_formats.messages.open_calls import OpenCalls
from fairlead_formats.registry import PROVIDER_FORMATS

idents = st.sampled_from(["", "a", "a.b", "a_b", "b"])
names = st.sampled_from(["f", "g", ""])
calls = st.lists(st.builds(ModelCall, idents, names, st.just({}), names), max_size=5)
results = st.lists(st.builds(ToolResult, idents, names, st.just({})), max_size=5)


def plainly(waiting: list[ModelCall], given_now: list[ToolResult]) -> tuple[list[tuple[int, int]], list[int]]:
    """Pairs of indices of calls and their results, by a linear search; and the indices of results without a call."""
    left = list(range(len(given_now)))
    matches = []
    for index, call in enumerate(waiting):
        ids = [call.id, *(provider.messages.write_id(call.id) for provider in PROVIDER_FORMATS.values())]
        wanted = [*((ident, None) for ident in ids if ident), ("", call.wire_name), ("", call.name), ("", "")]
        for ident, name in wanted:
            result = next((i for i in left if given_now[i].id == ident and name in (None, given_now[i].name)), None)
            if result is not None:
                left.remove(result)
                matches.append((index, result))
                break
    return matches, left


@given(calls, st.lists(results, max_size=4))
def test_each_call_takes_the_result_that_a_plain_search_finds(
    made: list[ModelCall], rounds: list[list[ToolResult]]
) -> None:
    waiting = [*enumerate(made)]
    open_calls = OpenCalls(made)
    for given_now in rounds:
        matched, strays = open_calls.take(given_now)
        wanted, left = plainly([call for _, call in waiting], given_now)
        places = {id(result): index for index, result in enumerate(given_now)}
        assert [(each.index, places[id(each.result)]) for each in matched] == [
            (waiting[index][0], result) for index, result in wanted
        ]
        assert [places[id(stray)] for stray in strays] == left
        taken = {index for index, _ in wanted}
        waiting = [each for index, each in enumerate(waiting) if index not in taken]
        assert len(open_calls) == len(waiting)
