"""Report of a server that is an HTTP API: the outcome of each operation of its OpenAPI document."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_api.documents.operations import ApiReport


class OperationFacts(msgspec.Struct, frozen=True):
    """An operation that is left out, or whose tool lacks part of it."""

    operation: str
    """Method and path, such as `GET /pets/{id}`."""
    tool: str | None
    """Name of the tool, without prefix; null for an operation that is left out."""
    why: str
    """Reason, as a clause."""


class ApiFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of the operations of an OpenAPI document, by outcome."""

    operations: int
    """Number of operations that `include` and `exclude` select."""
    left_out: int
    """Number of these that are not tools."""
    with_loss: int
    """Number of tools that lack part of their operation."""
    remarks: list[OperationFacts] | UnsetType = UNSET
    """Operations that are left out, then tools with losses, at most 500; absent in lists of servers."""


def api_facts(report: ApiReport, *, remarks: bool) -> ApiFacts:
    """The report for people, with or without its remarks."""
    operations = [OperationFacts(each.operation, each.tool or None, each.why) for each in report.remarks]
    return ApiFacts(report.operations, report.left_out, report.with_loss, operations if remarks else UNSET)
