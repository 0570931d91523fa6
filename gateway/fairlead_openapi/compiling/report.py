"""Results of a compilation: tools, and what became of each operation. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.operations import Operation

LossKind = Literal["reference", "keyword", "unchecked", "parameter", "body", "media-type", "size"]
"""Kind of a loss: a schema that cannot be resolved, a keyword of a schema, a rule that calls are not checked by, a
parameter, the body, the structure of a body that is text, or definitions beyond the maximum size.
"""


class OperationLoss(msgspec.Struct, frozen=True):
    """Something of an operation that its tool cannot express."""

    kind: LossKind
    where: str
    """Argument, or `result`."""
    message: str
    """Clause without a full stop."""


class OperationReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Outcome of one operation."""

    operation: str
    """Method and path, such as `GET /pets/{id}`."""
    operation_id: str = ""
    tags: tuple[str, ...] = ()
    tool: str = ""
    """Name of the tool; empty: left out."""
    losses: tuple[OperationLoss, ...] = ()
    left_out: str = ""
    """Why there is no tool, as a clause; empty if there is a tool."""
    notes: tuple[str, ...] = ()
    """Faults of the document that cost nothing, and results that stay text."""

    @property
    def outcome(self) -> Literal["made", "made with loss", "left out"]:
        """The outcome, as `counts` and the report name it."""
        if self.left_out:
            return "left out"
        return "made with loss" if self.losses else "made"


class SecurityScheme(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Security Scheme Object: where its credential goes."""

    type: str
    """`apiKey`, `http`, `oauth2`, `openIdConnect` or `mutualTLS`."""
    name: str = ""
    """Header, query parameter or cookie of an `apiKey`."""
    location: str = ""
    """`header`, `query` or `cookie`, of an `apiKey`."""
    scheme: str = ""
    """HTTP authentication scheme in lower case, such as `bearer`."""

    @property
    def placement(self) -> str:
        """Where the credential goes, such as `apiKey in header X-Key`."""
        if self.type == "apiKey":
            return f"apiKey in {self.location} {self.name}"
        return f"{self.type} {self.scheme}".rstrip()


class CompiledTool(msgspec.Struct, frozen=True):
    """A tool definition of MCP, and the request that a call of it makes."""

    name: str
    definition: Raw
    operation: Operation


class CompiledDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the compilation of one document."""

    openapi: str
    """Version of OpenAPI, as the document says."""
    title: str
    version: str
    """Version of the API."""
    base_url: str
    """URL that paths are appended to; empty if the document has no absolute URL."""
    tools: tuple[CompiledTool, ...]
    """Tools, in the order of the document."""
    reports: tuple[OperationReport, ...]
    """Reports on the selected operations, in the order of the document."""
    unselected_count: int
    """Number of operations that `include` and `exclude` leave out."""
    unmatched: tuple[str, ...] = ()
    """Patterns of `include` and `exclude` that no operation matches, sorted."""
    notes: tuple[str, ...]
    """Remarks on the document, as sentences without a full stop."""
    schemes: dict[str, SecurityScheme]

    def counts(self) -> dict[str, int]:
        """Number of operations by outcome."""
        counts = {"made": 0, "made with loss": 0, "left out": 0}
        for report in self.reports:
            counts[report.outcome] += 1
        return counts


def to_jsonable(document: CompiledDocument) -> Any:
    """The report as plain values, without the definitions."""
    return {
        "openapi": document.openapi,
        "title": document.title,
        "version": document.version,
        "baseUrl": document.base_url,
        "counts": {**document.counts(), "not selected": document.unselected_count},
        "notes": list(document.notes),
        "securitySchemes": {name: msgspec.to_builtins(scheme) for name, scheme in document.schemes.items()},
        "operations": [
            {"outcome": report.outcome, **msgspec.json.decode(msgspec.json.encode(report))}
            for report in document.reports
        ],
    }
