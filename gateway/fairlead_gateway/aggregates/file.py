"""The aggregate file, which has latency histograms of tools, and the merging of several such files. Pure module.

Merging adds integers, so the order of the files does not matter. No call is counted twice: each file lists random ids
of the processes that counted its calls, and files with a common id are not merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fairlead_gateway.aggregates.tally import BOUNDS_MS, Tally
from fairlead_mcp.misread_values import explain_misreading

KIND: Final = "fairlead.dev/aggregates"
VERSION: Final = 1
LOCAL: Final = "local"
CLUSTER: Final = "cluster"
OTHER: Final = "other"
"""Stands for all environments other than `local` and `cluster`, because their names are private."""
MAX_CHARACTERS: Final = 256
"""Maximum number of characters of a name."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=MAX_CHARACTERS)]


class BadFile(ValueError):
    """A file that is not an aggregate file, or that cannot be merged. The message says why."""


class Line(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Latency histogram of one tool definition, of one version of a server, in one kind of environment."""

    server: Text
    """The server's `serverInfo.name`."""
    version: Text
    """The server's `serverInfo.version`."""
    tool: Text
    """Name of the tool at the server, without prefix."""
    definition: Text
    """Hash of the definition that the server sent."""
    environment: Text
    """`local`, `cluster` or `other`."""
    counts: tuple[Count, ...]
    """Successful attempts per bucket; the last bucket is for durations above all bounds."""
    total_us: Count
    """Sum of the durations of all successful attempts, in microseconds."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return self.server, self.version, self.tool, self.definition, self.environment

    @property
    def calls(self) -> int:
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float | None:
        """The quantile `share` (0 to 1) of the durations, in milliseconds; None if there were no calls.

        The quantile is interpolated within its bucket, as in Prometheus. Durations above the last bound count as that
        bound.
        """
        rank, below, lower = share * self.calls, 0, 0
        for count, upper in zip(self.counts, BOUNDS_MS, strict=False):
            if count and below + count >= rank:
                return lower + (upper - lower) * (rank - below) / count
            below, lower = below + count, upper
        return float(BOUNDS_MS[-1]) if self.calls else None


class Aggregates(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Content of an aggregate file."""

    kind: str = KIND
    version: int = VERSION
    origins: tuple[Text, ...] = ()
    """Random ids of the processes that counted, sorted."""
    bounds_ms: tuple[int, ...] = BOUNDS_MS
    tools: tuple[Line, ...] = ()
    """Sorted by server, version, tool, definition and environment."""


def line(server: str, version: str, tool: str, environment: str, tally: Tally) -> Line:
    """Current counts of a tally as a line of the file. Names are cut to `MAX_CHARACTERS` characters."""
    kind = environment if environment in (LOCAL, CLUSTER) else OTHER
    server, version, tool, definition = (text[:MAX_CHARACTERS] for text in (server, version, tool, tally.definition))
    return Line(server, version, tool, definition, kind, tuple(tally.buckets), tally.total_us)


def gather(origin: str, lines: Iterable[Line]) -> Aggregates:
    """Create the file of the process with the random id `origin`.

    Definitions that were never called are left out. Counts of equal definitions of several servers are added up.
    """
    return Aggregates(origins=(origin,), tools=_sum_lines(line for line in lines if line.calls))


def merge(files: Sequence[Aggregates]) -> Aggregates:
    """Merge files into one. Raises BadFile if two of them have counted the same calls."""
    origins = [origin for file in files for origin in file.origins]
    common_origins = sorted({origin for origin in origins if origins.count(origin) > 1})
    if common_origins:
        raise BadFile(
            f"several of the files have the calls of process {', '.join(common_origins)}, which would count twice: "
            "leave out all but one"
        )
    return Aggregates(origins=tuple(sorted(origins)), tools=_sum_lines(line for file in files for line in file.tools))


def decode(data: bytes) -> Aggregates:
    """Read a file. Raises BadFile."""
    try:
        aggregates: Aggregates = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"the file is not an aggregate file of Fairlead: {explain_misreading(error, 'it')}") from error
    if aggregates.kind != KIND or aggregates.version != VERSION:
        raise BadFile(
            f"the file is of kind {aggregates.kind[:64]!r}, version {aggregates.version}; only kind {KIND!r}, "
            f"version {VERSION}, can be read"
        )
    if aggregates.bounds_ms != BOUNDS_MS or any(len(line.counts) != len(BOUNDS_MS) + 1 for line in aggregates.tools):
        raise BadFile(f"the histograms of the file have other buckets than version {VERSION}")
    return aggregates


def encode(file: Aggregates) -> bytes:
    """Encode the file as indented JSON; equal files have equal bytes."""
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


_decode: Any = msgspec.json.Decoder(Aggregates).decode


def _sum_lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    sums: dict[tuple[str, ...], Line] = {}
    for line in lines:
        sum_ = sums.get(line.key)
        sums[line.key] = line if sum_ is None else _sum(sum_, line)
    return tuple(sums[key] for key in sorted(sums))


def _sum(line: Line, other: Line) -> Line:
    counts = tuple(a + b for a, b in zip(line.counts, other.counts, strict=True))
    return msgspec.structs.replace(line, counts=counts, total_us=line.total_us + other.total_us)
