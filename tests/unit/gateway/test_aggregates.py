"""Aggregate files: merging is exact in any order, and counts nothing twice."""

from __future__ import annotations

import random

import msgspec
import pytest

from examples import examples
from fairlead_gateway.aggregates.file import Aggregates, BadFile, Line, decode, encode, gather, line, merge
from fairlead_gateway.aggregates.tally import BOUNDS_MS, Tally


def tally(*milliseconds: float, definition: str = "h") -> Tally:
    made = Tally(definition)
    for latency in milliseconds:
        made.observe(latency)
    return made


def random_file(rng: random.Random, origin: str) -> Aggregates:
    lines = []
    for _ in range(rng.randrange(6)):
        durations = [rng.expovariate(1 / 300) for _ in range(rng.randrange(20))]
        counted = tally(*durations, definition=rng.choice("hk"))
        lines.append(
            line(rng.choice("st"), rng.choice(["1", "2"]), rng.choice("abc"), rng.choice(["local", "x"]), counted)
        )
    return gather(origin, lines)


def test_aggregates_merge_associatively_and_commutatively_and_lose_nothing() -> None:
    for seed in range(examples(50)):
        rng = random.Random(seed)
        a, b, c = (random_file(rng, f"{seed}.{name}") for name in "abc")
        together = merge([a, b, c])
        assert encode(merge([merge([a, b]), c])) == encode(merge([a, merge([b, c])])) == encode(together)
        for order in ([b, c, a], [c, b, a], [b, a, c]):
            assert encode(merge(order)) == encode(together)
        assert merge([together, Aggregates()]) == together
        lines = [measured for file in (a, b, c) for measured in file.tools]
        assert sum(measured.calls for measured in together.tools) == sum(measured.calls for measured in lines)
        assert sum(measured.total_us for measured in together.tools) == sum(measured.total_us for measured in lines)
        assert {measured.key for measured in together.tools} == {measured.key for measured in lines}
        assert decode(encode(together)) == together


def test_aggregates_that_two_files_have_both_counted_are_refused() -> None:
    a, b, c = (gather(name, [line("s", "1", "t", "local", tally(5.0))]) for name in "abc")
    with pytest.raises(BadFile, match="several of the files have the calls of process b,"):
        merge([merge([a, b]), merge([b, c])])


def test_a_file_has_no_member_that_could_hold_an_agent_a_host_or_a_namespace() -> None:
    assert Line.__struct_fields__ == (
        "server",
        "version",
        "tool",
        "definition",
        "environment",
        "counts",
        "total_us",
    )
    assert Aggregates.__struct_fields__ == ("kind", "version", "origins", "bounds_ms", "tools")
    own = gather("x", [line("s", "1", "t", "berlin-3.internal.example", tally(5.0))])
    assert [measured.environment for measured in own.tools] == ["other"]


def test_quantiles_are_estimated_within_a_bucket() -> None:
    fast = line("s", "1", "t", "local", tally(*[150.0] * 100))
    assert (fast.quantile_ms(0.5), fast.quantile_ms(1.0)) == (150.0, 200.0)
    beyond = line("s", "1", "t", "local", tally(999_999.0))
    assert beyond.quantile_ms(0.5) == BOUNDS_MS[-1]
    assert line("s", "1", "t", "local", tally()).quantile_ms(0.5) is None


GOOD = gather("x", [line("s", "1", "t", "local", tally(5.0))])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"kind":"other"}',
        b'{"kind":"fairlead.dev/aggregates","agents":["me"]}',
        encode(msgspec.structs.replace(GOOD, version=2)),
        encode(msgspec.structs.replace(GOOD, bounds_ms=(1, 2))),
        encode(GOOD).replace(b"0,\n", b"", 1),
        encode(GOOD).replace(b"1,", b"-1,", 1),
    ],
)
def test_data_that_is_not_an_aggregate_file_is_refused(data: bytes) -> None:
    with pytest.raises(BadFile):
        decode(data)
