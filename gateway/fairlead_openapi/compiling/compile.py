"""Compilation of an OpenAPI document to tools and a report. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fairlead_openapi.compiling.checking import operation_findings
from fairlead_openapi.compiling.naming import OperationKey, tool_names
from fairlead_openapi.compiling.operations import METHODS, DocumentContext, OperationCompiler
from fairlead_openapi.compiling.reading import DocumentRefused, is_version_3_0, read_document
from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.report import CompiledDocument, CompiledTool, OperationReport
from fairlead_openapi.compiling.schemas import SchemaConverter
from fairlead_openapi.compiling.security import security_schemes
from fairlead_openapi.compiling.selecting import OperationFilter
from fairlead_openapi.compiling.servers import base_url
from fairlead_openapi.compiling.shapes import UnusablePart, text

MAX_OPERATIONS: Final = 5000
"""Maximum number of operations that become tools."""


class CompileOptions(msgspec.Struct, frozen=True):
    """Which operations become tools, and where the document is from."""

    include: tuple[str, ...] = ()
    """Globs on `operationId`, tag and `METHOD /path`; empty: all operations."""
    exclude: tuple[str, ...] = ()
    """Globs of operations that are left out, whatever `include` says."""
    url: str = ""
    """Absolute URL of the document, to which its servers' URLs may be relative; empty if it has none."""


class _SourceOperation(msgspec.Struct, frozen=True):
    """An operation in the document."""

    key: OperationKey
    path_item: dict[str, Any]
    operation: Any
    tags: tuple[str, ...]
    fault: str = ""
    """Why it cannot be read."""


def compile_document(data: bytes, options: CompileOptions) -> CompiledDocument:
    """Compile a document of OpenAPI 3.0 or 3.1, in JSON or YAML. Raises DocumentRefused."""
    document = read_document(data)
    references = DocumentReferences(document, options.url)
    operations = [*_operations(document, references)]
    names = tool_names([source.key for source in operations])
    selection = OperationFilter(options.include, options.exclude)
    selected_operations = [
        (source, name)
        for source, name in zip(operations, names, strict=True)
        if selection.selects(source.key, source.tags)
    ]
    if len(selected_operations) > MAX_OPERATIONS:
        raise DocumentRefused(
            f"{len(selected_operations):,} operations are selected, and at most {MAX_OPERATIONS:,} become tools; "
            "narrow them by `include` or `exclude`"
        )
    dialect_3_0 = is_version_3_0(document)
    context = DocumentContext(
        document=document,
        url=options.url,
        dialect_3_0=dialect_3_0,
        references=references,
        schemes=security_schemes(document, references),
        requests=SchemaConverter(references, "request", dialect_3_0=dialect_3_0),
        results=SchemaConverter(references, "result", dialect_3_0=dialect_3_0),
    )
    compiler = OperationCompiler(context)
    tools: list[CompiledTool] = []
    reports = [_report(source, name, compiler, context, tools) for source, name in selected_operations]
    url, notes = _base_url(document, options.url)
    unmatched_patterns = tuple(selection.unmatched_patterns())
    info = document.get("info")
    info_object: dict[str, Any] = info if isinstance(info, dict) else {}
    return CompiledDocument(
        openapi=document["openapi"],
        title=text(info_object.get("title")),
        version=str(info_object.get("version", "")),
        base_url=url,
        tools=tuple(tools),
        reports=tuple(reports),
        unselected_count=len(operations) - len(selected_operations),
        unmatched=unmatched_patterns,
        notes=(*notes, *(f"no operation matches {pattern!r}" for pattern in unmatched_patterns)),
        schemes=context.schemes,
    )


def _operations(document: dict[str, Any], references: DocumentReferences) -> Iterator[_SourceOperation]:
    paths = document.get("paths")
    if paths is not None and not isinstance(paths, dict):
        raise DocumentRefused("`paths` of the document is not an object")
    for path, value in (paths or {}).items():
        if path.startswith("x-"):
            continue
        try:
            path_item = references.resolve(value)
        except UnusablePart as error:
            yield _SourceOperation(OperationKey("*", path), {}, None, (), f"its path cannot be read: {error}")
            continue
        if not isinstance(path_item, dict):
            yield _SourceOperation(OperationKey("*", path), {}, None, (), "its path is not an object")
            continue
        for method in METHODS:
            if method in path_item:
                yield _source_operation(method, path, path_item)


def _source_operation(method: str, path: str, path_item: dict[str, Any]) -> _SourceOperation:
    operation = path_item[method]
    if not isinstance(operation, dict):
        return _SourceOperation(OperationKey(method.upper(), path), path_item, None, (), "it is not an object")
    key = OperationKey(method.upper(), path, text(operation.get("operationId")))
    tags = operation.get("tags")
    tag_names = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return _SourceOperation(key, path_item, operation, tag_names)


def _report(
    source: _SourceOperation,
    name: str,
    compiler: OperationCompiler,
    context: DocumentContext,
    tools: list[CompiledTool],
) -> OperationReport:
    """Compile one operation, add its tool to `tools`, and report the outcome."""
    report = OperationReport(operation=str(source.key), operation_id=source.key.operation_id, tags=source.tags)
    if source.fault:
        return msgspec.structs.replace(report, left_out=source.fault)
    findings = operation_findings(source.operation, dialect_3_0=context.dialect_3_0)
    try:
        compiled = compiler.compile(source.key, name, source.path_item, source.operation)
    except (UnusablePart, RecursionError) as error:
        reason = str(error) if isinstance(error, UnusablePart) else "it is nested too deeply"
        return msgspec.structs.replace(report, left_out=reason, notes=findings)
    tools.append(compiled.tool)
    return msgspec.structs.replace(report, tool=name, losses=compiled.losses, notes=(*compiled.notes, *findings))


def _base_url(document: dict[str, Any], document_url: str) -> tuple[str, list[str]]:
    try:
        url = base_url(document.get("servers"), document_url)
    except UnusablePart as error:
        return "", [f"the document gives no base URL: {error}"]
    return url, [] if url else ["the document gives no base URL: it has no `servers`"]
