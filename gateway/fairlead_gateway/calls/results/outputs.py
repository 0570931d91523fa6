"""Checks results against their tool's `outputSchema`, and translates resource URIs to the endpoint's URIs.

Pure module. A result that does not match the `outputSchema` is counted, and gets a warning in
`_meta["fairlead.dev/warning"]`. Its content and structured content stay byte for byte, because a client may understand
them nevertheless.
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
    """The outcome, with a warning if its structured content does not match the tool's `outputSchema`."""
    if check is None or not check.declares_output or outcome.is_error or outcome.needs_input or outcome.is_task:
        return outcome
    if outcome.lacks_structured:
        return outcome  # the structured content, which the outputSchema describes, was removed for this client
    mismatch = check.result(outcome.result)
    if mismatch is None:
        return outcome
    check.count_mismatch(str(server))
    warning = refusals.warning(OUTPUT_SCHEMA_MISMATCH, f"The result does not match the tool's outputSchema: {mismatch}")
    try:
        return TranslatedResult(translate.with_meta(outcome.result, META_WARNING, warning), False)
    except NotMcp:
        return outcome  # `_meta` is not an object, so the warning cannot be added


def outcome_for_client(route: Route, method: str, outcome: TranslatedResult) -> TranslatedResult:
    """The outcome of a request for the client: checked, and with the URIs of the endpoint in place of the server's.

    Raises NotMcp for a result that must not be passed on (`verbatim_reads`).
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
    """A result with `ttlMs` and `cacheScope`, which modern results must have.

    Results of legacy servers lack these members; the added values forbid caching.
    """
    members = jsonrpc.decode_object(result)
    if "ttlMs" in members and "cacheScope" in members:
        return result
    members.setdefault("ttlMs", Raw(b"0"))
    members.setdefault("cacheScope", Raw(b'"private"'))
    return jsonrpc.encode(members)
