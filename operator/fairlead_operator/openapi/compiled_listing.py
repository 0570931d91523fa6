"""Builds the listing of an HTTP API from its compiled document. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from fairlead_api.documents.operations import (
    MAX_REMARK,
    MAX_REMARKS,
    ApiReport,
    OperationRemark,
    join_operation,
)
from fairlead_mcp.eras import MODERN_VERSION
from fairlead_mcp.server_listing import RawListing
from fairlead_openapi.compiling.report import CompiledDocument, CompiledTool
from fairlead_openapi.compiling.scheme_names import scheme_names
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.openapi.document_content import DocumentUnusable

_CAPABILITIES = Raw(b'{"tools":{}}')


def build_listing(document: CompiledDocument, digest: str, source: ApiSource) -> RawListing:
    """The listing of a compiled document; `digest` is the document's SHA-256, hexadecimal. Raises DocumentUnusable."""
    base_url = source.base_url or document.base_url
    if not base_url:
        raise DocumentUnusable(
            "the document does not say where the API is: it has no server with an absolute URL; set openapi.baseURL"
        )
    refused_tools = {
        tool.name: tool
        for tool in document.tools
        if source.confines_secrets(tool.name) and _is_at_other_origin(tool, base_url)
    }
    offered_tools = [tool for tool in document.tools if tool.name not in refused_tools]
    remarks = [*_left_out_remarks(document), *map(_other_origin_remark, refused_tools.values())]
    losses = [remark for remark in _loss_remarks(document) if remark.tool not in refused_tools]
    info = {"name": document.title or "HTTP API", "version": document.version}
    return RawListing(
        protocol_version=MODERN_VERSION,
        server_info=Raw(msgspec.json.encode(info)),
        capabilities=_CAPABILITIES,
        tools=tuple(join_operation(tool.definition, tool.operation) for tool in offered_tools),
        endpoint=source.endpoint(base_url),
        api=ApiReport(
            digest=digest,
            operations=len(document.reports),
            with_loss=len(losses),
            left_out=len(remarks),
            remarks=tuple((remarks + losses)[:MAX_REMARKS]),
            unmatched=document.unmatched[:MAX_REMARKS],
            schemes=scheme_names(document),
        ),
    )


def _is_at_other_origin(tool: CompiledTool, base_url: str) -> bool:
    """Whether an operation has its own server, at another origin (RFC 6454 section 5)."""
    own_base_url = tool.operation.base_url
    return bool(own_base_url) and urlsplit(own_base_url)[:2] != urlsplit(base_url)[:2]


def _left_out_remarks(document: CompiledDocument) -> Iterator[OperationRemark]:
    for report in document.reports:
        if report.left_out:
            yield OperationRemark(operation=report.operation, why=report.left_out[:MAX_REMARK])


def _loss_remarks(document: CompiledDocument) -> Iterator[OperationRemark]:
    for report in document.reports:
        if report.losses and not report.left_out:
            reasons = "; ".join(f"{loss.where}: {loss.message}" for loss in report.losses)
            yield OperationRemark(operation=report.operation, tool=report.tool, why=reasons[:MAX_REMARK])


def _other_origin_remark(tool: CompiledTool) -> OperationRemark:
    operation = tool.operation
    reason = f"its own server {operation.base_url} is not at the origin of baseURL, the only one that gets credentials"
    return OperationRemark(operation=f"{operation.method} {operation.path}", why=reason[:MAX_REMARK])
