"""The aggregate file: its content, and how several become one. Pure module.

Merging adds integers, so the order of merging makes no difference. No count is added twice: each export names its
origins by random numbers, and files that share one are not merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fairlead_gateway.aggregates.tally import BOUNDS_MS, Tally

KIND: Final = "fairlead.dev/aggregates"
VERSION: Final = 1
LOCAL: Final = "local"
CLUSTER: Final = "cluster"
OTHER: Final = "other"
"""Class of an environment with a name of its own, which is nobody's business."""
LONGEST: Final = 256
Count = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=LONGEST)]


class BadFile(ValueError):
    """Not an aggregate file, or none that can be merged; the message says why."""


class Line(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One definition of one release of a server, in one class of environments."""

    server: Text
    """As the server calls itself (`serverInfo.name`)."""
    version: Text
    """Version of the server, as it says itself."""
    tool: Text
    """As the server calls it."""
    definition: Text
    """Hash over the definition that the server sent."""
    environment: Text
    """`local`, `cluster` or `other`."""
    counts: tuple[Count, ...]
    """Successful attempts per bucket; one more than there are bounds."""
    total_us: Count
    """Sum of their durations in microseconds."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return self.server, self.version, self.tool, self.definition, self.environment

    @property
    def calls(self) -> int:
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float | None:
        """Estimated within its bucket, as Prometheus does; the last bound for what lies beyond; None without calls."""
        rank, below, lower = share * self.calls, 0, 0
        for count, upper in zip(self.counts, BOUNDS_MS, strict=False):
            if count and below + count >= rank:
                return lower + (upper - lower) * (rank - below) / count
            below, lower = below + count, upper
        return float(BOUNDS_MS[-1]) if self.calls else None


class Aggregates(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The file."""

    kind: str = KIND
    version: int = VERSION
    origins: tuple[Text, ...] = ()
    """Random numbers, one per process that counted, sorted."""
    bounds_ms: tuple[int, ...] = BOUNDS_MS
    tools: tuple[Line, ...] = ()
    """Sorted by server, version, tool, definition and environment."""


def line(server: str, version: str, tool: str, environment: str, tally: Tally) -> Line:
    """A tally as it stands now. Of names that are too long, the beginning."""
    kind = environment if environment in (LOCAL, CLUSTER) else OTHER
    texts = (server[:LONGEST], version[:LONGEST], tool[:LONGEST], tally.definition[:LONGEST])
    return Line(*texts, kind, tuple(tally.buckets), tally.total_us)


def gather(origin: str, lines: Iterable[Line]) -> Aggregates:
    """A file of one process, without definitions that nobody called. Servers may share a definition."""
    return Aggregates(origins=(origin,), tools=_sum_lines(line for line in lines if line.calls))


def merge(files: Sequence[Aggregates]) -> Aggregates:
    """All of them as one. Raises BadFile for two that have counted the same calls."""
    origins = [origin for file in files for origin in file.origins]
    twice = sorted({origin for origin in origins if origins.count(origin) > 1})
    if twice:
        raise BadFile(f"calls of {', '.join(twice)} are in more than one of the files, and would count twice")
    return Aggregates(origins=tuple(sorted(origins)), tools=_sum_lines(line for file in files for line in file.tools))


def decode(data: bytes) -> Aggregates:
    """Read a file. Raises BadFile."""
    try:
        aggregates: Aggregates = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"not an aggregate file: {error}") from error
    if aggregates.kind != KIND or aggregates.version != VERSION:
        raise BadFile(
            f"kind {aggregates.kind[:64]!r}, version {aggregates.version}; what is read is {KIND!r}, version {VERSION}"
        )
    if aggregates.bounds_ms != BOUNDS_MS or any(len(line.counts) != len(BOUNDS_MS) + 1 for line in aggregates.tools):
        raise BadFile("its histograms have other buckets")
    return aggregates


def encode(file: Aggregates) -> bytes:
    """The file as JSON for people and programs; equal files have equal bytes."""
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


_decode: Any = msgspec.json.Decoder(Aggregates).decode


def _sum_lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    sums: dict[tuple[str, ...], Line] = {}
    for line in lines:
        held = sums.get(line.key)
        sums[line.key] = line if held is None else _sum(held, line)
    return tuple(sums[key] for key in sorted(sums))


def _sum(line: Line, other: Line) -> Line:
    counts = tuple(a + b for a, b in zip(line.counts, other.counts, strict=True))
    return msgspec.structs.replace(line, counts=counts, total_us=line.total_us + other.total_us)
