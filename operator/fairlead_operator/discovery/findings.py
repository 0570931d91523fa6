"""Findings about a server that answered although not all of its definitions can be offered. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.discovery.offerable import MAX_NAMES, TOOL, Fault
from fairlead_operator.ports import ConditionVerdict

LINES_LIMIT: Final = 20
ANSWERED: Final = "it answered tools/list"


@dataclass(frozen=True)
class ListingFindings:
    """Findings about one answer: `listed` definitions, faults of some, listings that failed, and notes for the log."""

    listed: int = 0
    faults: tuple[Fault, ...] = ()
    failed: tuple[str, ...] = ()
    """A sentence for each optional listing that brought nothing although it was declared."""
    notes: tuple[str, ...] = ()
    disregarded: int = 0
    """Tools that call themselves read-only or idempotent, which counts only once somebody trusts their server."""
    taken: tuple[str, ...] = ()
    """Sentences about what was taken although its shape is not MCP's."""

    @property
    def tools_left_out(self) -> int:
        """Tools that are listed and not offered."""
        return sum(1 for fault in self.faults if fault.left_out and fault.word == TOOL.word)

    @property
    def lines(self) -> tuple[str, ...]:
        """For the log: a line each, bounded however bad the server is."""
        lines = [f"{fault.cause}: {fault.word} {_label(fault)}" for fault in self.faults]
        lines += [f"{Cause.LISTING_INCOMPLETE}: {sentence}" for sentence in self.failed]
        lines += [f"{Cause.MENDED_ANSWERS}: {sentence}" for sentence in self.taken]
        lines += self.notes
        more = len(lines) - LINES_LIMIT
        return tuple(lines) if more <= 0 else (*lines[:LINES_LIMIT], f"and {more} more of the kind")

    def verdict(self) -> ConditionVerdict:
        """True in any case: what can be offered is. The cause is that of the worst, or says that there are several."""
        causes = {fault.cause for fault in self.faults if fault.left_out}
        if self.failed:
            causes.add(Cause.LISTING_INCOMPLETE)
        if not causes:
            causes = {fault.cause for fault in self.faults}
            if self.taken:
                causes.add(Cause.MENDED_ANSWERS)
            causes = causes or {Cause.VERIFIED}
        cause = causes.pop() if len(causes) == 1 else Cause.VERIFIED_IN_PART
        return ConditionVerdict(True, cause, "; ".join([ANSWERED, *self._clauses()]))

    def _clauses(self) -> Iterable[str]:
        out = [fault for fault in self.faults if fault.left_out]
        if out:
            yield f"{len(out)} of {self.listed} definitions are left out: {_enumerate(out)}"
        for cause, words in _OFFERED.items():
            alike = [fault for fault in self.faults if fault.cause == cause and not fault.left_out]
            if alike:
                yield f"{words.format(count=len(alike), listed=self.listed)}: {_enumerate(alike)}"
        yield from self.failed
        yield from self.taken
        if self.disregarded:
            tools = "1 tool says" if self.disregarded == 1 else f"{self.disregarded} tools say"
            yield f"{tools} that calls may be repeated: to believe it, set spec.trustAnnotations: true"


_OFFERED: Final = {
    Cause.UNUSUAL_NAMES: "{count} names are outside of MCP's naming rule and offered as they are",
    Cause.MENDED_DEFINITIONS: "{count} of {listed} definitions are mended for clients",
    Cause.INVALID_SCHEMAS: "{count} of {listed} definitions are left out for older clients",
}
"""Words for faults of definitions that are offered all the same."""


def _enumerate(faults: list[Fault]) -> str:
    """Some of each cause, so that many of one kind do not hide another."""
    shown: list[str] = []
    for cause in dict.fromkeys(fault.cause for fault in faults):
        alike = [fault for fault in faults if fault.cause == cause]
        shown += [f"{fault.word} {_label(fault)}" for fault in alike[:MAX_NAMES]]
    more = len(faults) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _label(fault: Fault) -> str:
    return f"'{fault.name}'" + (f" ({fault.why})" if fault.why else "")
