"""Findings about a listing whose definitions can only be offered in part. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fairlead_api.documents.operations import ApiReport, OperationRemark
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import ToolOverride
from fairlead_operator.discovery.offerable import MAX_NAMES, TOOL, Fault
from fairlead_operator.ports import ConditionVerdict

LINES_LIMIT: Final = 20
ANSWERED: Final = "the server answered tools/list"


@dataclass(frozen=True)
class ListingFindings:
    """Findings about one listing: number of `listed` definitions, faults, failed optional listings, and notes."""

    listed: int = 0
    faults: tuple[Fault, ...] = ()
    failed: tuple[str, ...] = ()
    """One sentence for each declared optional listing that failed."""
    notes: tuple[str, ...] = ()
    """Notes for the log only."""
    disregarded: int = 0
    """Number of tools whose annotations `readOnlyHint` or `idempotentHint` are ignored, as the server is not
    trusted.
    """
    taken: tuple[str, ...] = ()
    """Sentences about accepted deviations from MCP's schema."""
    api: ApiReport | None = None
    """Report on an OpenAPI document; None for a server of MCP."""
    unnamed: int = 0
    """Number of usable tools, if `discovery.tools: Named` keeps all of them from being offered."""
    offered: tuple[str, ...] = field(default=(), compare=False)
    """Names of the listed tools that can be offered, sorted."""

    @property
    def tools_left_out(self) -> int:
        """Number of tools that are listed and not offered."""
        left_out = 0 if self.api is None else self.api.left_out
        return left_out + sum(1 for fault in self.faults if fault.left_out and fault.word == TOOL.word)

    def unlisted_overrides(self, overrides: Iterable[ToolOverride]) -> list[str]:
        """Names in `spec.tools` that no listed tool has, sorted. A tool that is left out is listed too."""
        listed = {*self.offered, *(fault.name for fault in self.faults if fault.word == TOOL.word)}
        return sorted({override.name for override in overrides} - listed)

    @property
    def lines(self) -> tuple[str, ...]:
        """Log lines, one per finding, at most `LINES_LIMIT` and a count of the rest."""
        lines = [f"{fault.cause}: {fault.word} {_label(fault)}" for fault in self.faults]
        lines += [f"{Cause.LISTING_INCOMPLETE}: {sentence}" for sentence in self.failed]
        lines += [f"{Cause.MENDED_ANSWERS}: {sentence}" for sentence in self.taken]
        if self.api is not None:
            lines += [
                f"{Cause.OPERATIONS_LEFT_OUT}: {remark.operation}: {remark.why}" for remark in _left_out(self.api)
            ]
        lines += self.notes
        excess = len(lines) - LINES_LIMIT
        return tuple(lines) if excess <= 0 else (*lines[:LINES_LIMIT], f"and {excess} more findings")

    def verdict(self) -> ConditionVerdict:
        """Verdict for the condition Verified. The verdict is always True, because the valid definitions are offered.
        Its cause is the cause of the findings, or a general cause if the findings have several.
        """
        causes = {fault.cause for fault in self.faults if fault.left_out}
        if self.failed:
            causes.add(Cause.LISTING_INCOMPLETE)
        if self.api is not None and self.api.left_out:
            causes.add(Cause.OPERATIONS_LEFT_OUT)
        if not causes:
            causes = {fault.cause for fault in self.faults}
            if self.taken:
                causes.add(Cause.MENDED_ANSWERS)
            causes = causes or {Cause.VERIFIED}
        cause = causes.pop() if len(causes) == 1 else Cause.VERIFIED_IN_PART
        return ConditionVerdict(True, cause, "; ".join([self._answered, *self._clauses()]))

    @property
    def _answered(self) -> str:
        """Beginning of the message."""
        if self.api is None:
            return ANSWERED
        made = self.api.operations - self.api.left_out
        return f"the OpenAPI document was read: {made} of {self.api.operations} operations became tools"

    def _clauses(self) -> Iterable[str]:
        out = [fault for fault in self.faults if fault.left_out]
        if out:
            yield f"{len(out)} of {self.listed} definitions are left out: {_enumerate(out)}"
        for cause, words in _OFFERED.items():
            alike = [fault for fault in self.faults if fault.cause == cause and not fault.left_out]
            if alike:
                yield f"{words.format(count=len(alike), listed=self.listed)}: {_enumerate(alike)}"
        if self.api is not None and self.api.left_out:
            yield f"{self.api.left_out} operations are left out: {_enumerate_operations(self.api)}"
        if self.api is not None and self.api.with_loss:
            yield f"{self.api.with_loss} tools lack a part of their operation"
        yield from self.failed
        yield from self.taken
        if self.unnamed:
            yield (
                f"no tool is offered: spec.discovery.tools is Named, and spec.tools names none of the {self.unnamed} "
                "that the server lists"
            )
        if self.disregarded:
            tools = "1 tool says" if self.disregarded == 1 else f"{self.disregarded} tools say"
            yield f"{tools} that calls may be repeated, which is ignored: to trust it, set spec.trustAnnotations: true"


_OFFERED: Final = {
    Cause.UNUSUAL_NAMES: "{count} names violate MCP's naming rule and are offered unchanged",
    Cause.MENDED_DEFINITIONS: "{count} of {listed} definitions are mended for clients",
    Cause.INVALID_SCHEMAS: "{count} of {listed} definitions are left out for older clients",
}
"""Beginning of the message about faults of definitions that are offered anyway."""


def _enumerate(faults: list[Fault]) -> str:
    """Up to `MAX_NAMES` faulty definitions per cause, so that many faults of one cause do not hide another cause."""
    shown: list[str] = []
    for cause in dict.fromkeys(fault.cause for fault in faults):
        alike = [fault for fault in faults if fault.cause == cause]
        shown += [f"{fault.word} {_label(fault)}" for fault in alike[:MAX_NAMES]]
    more = len(faults) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _left_out(api: ApiReport) -> list[OperationRemark]:
    return [remark for remark in api.remarks if not remark.tool]


def _enumerate_operations(api: ApiReport) -> str:
    shown = [f"{remark.operation} ({remark.why})" for remark in _left_out(api)[:MAX_NAMES]]
    more = api.left_out - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _label(fault: Fault) -> str:
    return f"'{fault.name}'" + (f" ({fault.why})" if fault.why else "")
