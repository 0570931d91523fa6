"""Checks results against their tool's `outputSchema`: counted and marked where they do not fit, never altered; and
names the resources in them as the endpoint does.

Pure module. The mark is `_meta["fairlead.dev/warning"]`; content and structured content stay byte for byte, for a
client may understand more than the schema says.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.results.verbatim_reads import GET_SKILL, READ
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.core.ports import SchemaCheck
from fairlead_gateway.core.route import Route
from fairlead_mcp import jsonrpc
from fairlead_mcp.apps import remove_domains_in_result
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.methods import METHODS
from fairlead_tools import refusals
from fairlead_tools.refusal import META_WARNING, OUTPUT_SCHEMA_MISMATCH

CACHEABLE: Final = frozenset({READ, GET_SKILL})
"""Methods whose results carry `ttlMs` and `cacheScope` in the modern era."""


def check_output(check: SchemaCheck | None, server: ServerKey, outcome: TranslatedResult) -> TranslatedResult:
    """The outcome, marked where the structured content of a result does not fit."""
    if check is None or not check.declares_output or outcome.is_error or outcome.needs_input or outcome.is_task:
        return outcome
    if outcome.left_out:
        return outcome  # the outputSchema that its server has speaks of another value than this client gets
    wrong = check.result(outcome.result)
    if wrong is None:
        return outcome
    check.count_mismatch(str(server))
    warning = refusals.warning(OUTPUT_SCHEMA_MISMATCH, f"The result does not fit the outputSchema: {wrong}")
    try:
        return TranslatedResult(translate.with_meta(outcome.result, META_WARNING, warning), False)
    except NotMcp:
        return outcome  # its `_meta` is not an object and has no room for a mark


def present(route: Route, method: str, outcome: TranslatedResult) -> TranslatedResult:
    """The outcome of a request, checked, with the resources of its server under the names that its endpoint has for
    them. Raises NotMcp for one that may not be passed on.
    """
    if route.verify is not None and not outcome.needs_input:
        route.verify(outcome.result)
    outcome = check_output(route.check, route.server.key, outcome)
    if route.uris is None:
        return outcome
    result = route.uris.show_in(outcome.result, METHODS[method].uris)
    if method == READ:
        result = remove_domains_in_result(result)
    if result is outcome.result:
        return outcome
    return TranslatedResult(result, outcome.is_error, outcome.needs_input, outcome.is_task)


def with_cache_hints(result: bytes | Raw) -> bytes | Raw:
    """A result with `ttlMs` and `cacheScope`, which a modern `resources/read` must carry and a legacy server lacks."""
    members = jsonrpc.decode_object(result)
    if "ttlMs" in members and "cacheScope" in members:
        return result
    members.setdefault("ttlMs", Raw(b"0"))
    members.setdefault("cacheScope", Raw(b'"private"'))
    return jsonrpc.encode(members)
