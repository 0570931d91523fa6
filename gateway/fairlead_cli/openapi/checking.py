"""`fairlead openapi check`: compiles a document in a worker process and prints the report."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure, needs
from fairlead_cli.openapi.documents import FetchedDocument, read_source
from fairlead_cli.openapi.savings import savings_lines
from fairlead_cli.openapi.wanted_credentials import credential_lines
from fairlead_cli.output import Output, print_json, print_table, remark
from fairlead_cli.waiting import spinner

if TYPE_CHECKING:
    from fairlead_api.v1alpha1.mcpserver.openapi import OpenApiSource
    from fairlead_openapi.compiling.report import CompiledDocument, OperationReport

_VERB: Final = "openapi check"
_EMPTY: Final = "the document has no operations"


def run_check(
    source: str, include: tuple[str, ...], exclude: tuple[str, ...], output: Output, api: OpenApiSource | None
) -> None:
    """Print the report of a document; with `api`, of the document of an McpServer. Exits with 1 if an operation cannot
    become a tool, if no operation becomes a tool, or if a credential is for a security scheme that the document does
    not have. Raises Failure.
    """
    with needs("up"):
        from fairlead_openapi.compiling.report import to_jsonable
    if api is not None:
        include, exclude = (*api.include, *include), (*api.exclude, *exclude)
    with spinner(f"reading {source}"):
        document = read_source(source)
    with spinner(f"compiling {source}"):
        compiled = _compile(source, document, include, exclude)
    if output is Output.json:
        print_json(to_jsonable(compiled))
    else:
        print_table(("OPERATION", "TOOL", "OUTCOME", "REMARKS"), map(_row, compiled.reports))
        for line in _summary(compiled):
            remark(_VERB, line)
    unknown_schemes = "" if api is None else _unknown_schemes(compiled, api)
    if unknown_schemes:
        remark(_VERB, unknown_schemes)
    if not compiled.reports:
        remark(_VERB, "no operation becomes a tool: check --include and --exclude" if include or exclude else _EMPTY)
    if unknown_schemes or compiled.counts()["left out"] or not compiled.reports:
        sys.stdout.flush()
        sys.exit(FAILED)


def _unknown_schemes(compiled: CompiledDocument, api: OpenApiSource) -> str:
    from fairlead_openapi.compiling.scheme_names import explain_unknown, scheme_names

    names = scheme_names(compiled)
    return "" if names is None else explain_unknown(api.credentials, names)


def _compile(
    source: str, document: FetchedDocument, include: tuple[str, ...], exclude: tuple[str, ...]
) -> CompiledDocument:
    from fairlead_openapi.compiling.compile import CompileOptions
    from fairlead_openapi.compiling.reading import DocumentRefused
    from fairlead_openapi.compiling.worker import compile_in_worker

    options = CompileOptions(include=include, exclude=exclude, url=document.url)
    try:
        return asyncio.run(compile_in_worker(document.data, options))
    except DocumentRefused as error:
        raise Failure(f"{source} cannot become tools: {error}", code=USAGE_ERROR) from error


def _row(report: OperationReport) -> tuple[str, str, str, str]:
    losses = [f"{loss.where}: {loss.message}" if loss.where else loss.message for loss in report.losses]
    remarks = [*([report.left_out] if report.left_out else ()), *losses, *report.notes]
    suffix = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
    return report.operation, report.tool, report.outcome, f"{remarks[0]}{suffix}" if remarks else ""


def _summary(compiled: CompiledDocument) -> Iterator[str]:
    counts = compiled.counts()
    total = sum(counts.values())
    unselected_part = f", of {total + compiled.unselected_count:,}" if compiled.unselected_count else ""
    yield (
        f"{compiled.title or 'the document'}, OpenAPI {compiled.openapi}, {total:,} operations{unselected_part}: "
        f"{counts['made']:,} become tools, {counts['made with loss']:,} tools with losses, "
        f"{counts['left out']:,} are left out"
    )
    if compiled.base_url:
        yield f"calls go to {compiled.base_url}"
    if compiled.schemes:
        schemes = ", ".join(f"{name} ({scheme.placement})" for name, scheme in compiled.schemes.items())
        yield f"security schemes: {schemes}"
    yield from compiled.notes
    if not compiled.base_url:
        yield "write the URL of the API into a manifest, as openapi.baseURL"
    yield from credential_lines(compiled)
    yield from savings_lines(compiled)
