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


@dataclass(frozen=True)
class ListingFindings:
    """Findings about one listing. `listed` is the number of definitions in it."""

    listed: int = 0
    faults: tuple[Fault, ...] = ()
    failed_lists: tuple[str, ...] = ()
    """One sentence for each declared optional listing that failed."""
    notes: tuple[str, ...] = ()
    """Notes for the log only."""
    untrusted_hints: int = 0
    """Number of tools whose `readOnlyHint` or `idempotentHint` is ignored, because the server is not trusted."""
    deviations: tuple[str, ...] = ()
    """Sentences about accepted deviations from MCP's schema."""
    api: ApiReport | None = None
    """Report on an OpenAPI document; None for a server of MCP."""
    unnamed_tools: int = 0
    """Number of usable tools if `discovery.tools` is `Named` and `spec.tools` names none of them; else 0."""
    offered: tuple[str, ...] = field(default=(), compare=False)
    """Names of the listed tools that can be offered, sorted."""

    @property
    def tools_left_out(self) -> int:
        """Number of listed tools that cannot be offered."""
        left_out = 0 if self.api is None else self.api.left_out
        return left_out + sum(1 for fault in self.faults if fault.left_out and fault.noun == TOOL.noun)

    def unlisted_overrides(self, overrides: Iterable[ToolOverride]) -> list[str]:
        """Names in `spec.tools` that no listed tool has, sorted. A tool that is left out is listed too."""
        listed_names = {*self.offered, *(fault.name for fault in self.faults if fault.noun == TOOL.noun)}
        return sorted({override.name for override in overrides} - listed_names)

    @property
    def lines(self) -> tuple[str, ...]:
        """Log lines, one per finding, at most `LINES_LIMIT` and a count of the rest."""
        lines = [f"{fault.cause}: {fault.noun} {_label(fault)}" for fault in self.faults]
        lines += [f"{Cause.LISTING_INCOMPLETE}: {sentence}" for sentence in self.failed_lists]
        lines += [f"{Cause.MENDED_ANSWERS}: {sentence}" for sentence in self.deviations]
        if self.api is not None:
            lines += [
                f"{Cause.OPERATIONS_LEFT_OUT}: {remark.operation}: {remark.why}" for remark in _left_out(self.api)
            ]
        lines += self.notes
        excess = len(lines) - LINES_LIMIT
        return tuple(lines) if excess <= 0 else (*lines[:LINES_LIMIT], f"and {excess} more findings")

    def verdict(self) -> ConditionVerdict:
        """Verdict for the condition Verified: always True, because the valid definitions are offered. Its cause is that
        of the findings, or `VerifiedInPart` if the findings have several causes.
        """
        causes = {fault.cause for fault in self.faults if fault.left_out}
        if self.failed_lists:
            causes.add(Cause.LISTING_INCOMPLETE)
        if self.api is not None and self.api.left_out:
            causes.add(Cause.OPERATIONS_LEFT_OUT)
        if not causes:
            causes = {fault.cause for fault in self.faults}
            if self.deviations:
                causes.add(Cause.MENDED_ANSWERS)
            causes = causes or {Cause.VERIFIED}
        cause = causes.pop() if len(causes) == 1 else Cause.VERIFIED_IN_PART
        return ConditionVerdict(True, cause, "; ".join([self._beginning, *self._clauses()]))

    @property
    def _beginning(self) -> str:
        """Beginning of the message."""
        if self.api is None:
            return "the server answered tools/list"
        converted = self.api.operations - self.api.left_out
        return f"the OpenAPI document was read: {converted} of {self.api.operations} operations became tools"

    def _clauses(self) -> Iterable[str]:
        left_out = [fault for fault in self.faults if fault.left_out]
        if left_out:
            yield f"{len(left_out)} of {self.listed} definitions are left out: {_enumerate(left_out)}"
        for cause, template in _OFFERED_WITH_FAULT.items():
            faults = [fault for fault in self.faults if fault.cause == cause and not fault.left_out]
            if faults:
                yield f"{template.format(count=len(faults), listed=self.listed)}: {_enumerate(faults)}"
        if self.api is not None and self.api.left_out:
            yield f"{self.api.left_out} operations are left out: {_enumerate_operations(self.api)}"
        if self.api is not None and self.api.with_loss:
            yield f"{self.api.with_loss} tools lack a part of their operation"
        yield from self.failed_lists
        yield from self.deviations
        if self.unnamed_tools:
            yield (
                f"no tool is offered: spec.discovery.tools is Named, and spec.tools names none of the "
                f"{self.unnamed_tools} that the server lists"
            )
        if self.untrusted_hints:
            tools = "1 tool says" if self.untrusted_hints == 1 else f"{self.untrusted_hints} tools say"
            yield f"{tools} that calls may be repeated, which is ignored: to trust it, set spec.trustAnnotations: true"


_OFFERED_WITH_FAULT: Final = {
    Cause.UNUSUAL_NAMES: "{count} names violate MCP's naming rule and are offered unchanged",
    Cause.MENDED_DEFINITIONS: "{count} of {listed} definitions are mended for clients",
    Cause.INVALID_SCHEMAS: "{count} of {listed} definitions are left out for older clients",
}
"""Beginning of the clause about definitions that are offered despite a fault, by cause."""


def _enumerate(faults: list[Fault]) -> str:
    """Names up to `MAX_NAMES` definitions per cause, so that many faults of one cause do not hide another cause."""
    labels: list[str] = []
    for cause in dict.fromkeys(fault.cause for fault in faults):
        same_cause = [fault for fault in faults if fault.cause == cause]
        labels += [f"{fault.noun} {_label(fault)}" for fault in same_cause[:MAX_NAMES]]
    more_count = len(faults) - len(labels)
    return ", ".join(labels) + (f" and {more_count} more" if more_count else "")


def _left_out(api: ApiReport) -> list[OperationRemark]:
    return [remark for remark in api.remarks if not remark.tool]


def _enumerate_operations(api: ApiReport) -> str:
    operation_texts = [f"{remark.operation} ({remark.why})" for remark in _left_out(api)[:MAX_NAMES]]
    more_count = api.left_out - len(operation_texts)
    return ", ".join(operation_texts) + (f" and {more_count} more" if more_count > 0 else "")


def _label(fault: Fault) -> str:
    return f"'{fault.name}'" + (f" ({fault.why})" if fault.why else "")
