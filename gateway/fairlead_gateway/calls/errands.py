"""Requests to servers beside the plain calls, as they found their server: names and URIs in that server's own terms.

Pure module. Made for `endpoint.front`, run by `calls.forward`.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls import mirrored
from fairlead_gateway.calls.errand import Errand
from fairlead_gateway.calls.live import Live
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint.asked import Headers, Rejection
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.policy.resource_index import ResourceIndex as Offers
from fairlead_mcp import eras, jsonrpc, members

CALL: Final = "tools/call"
GET_PROMPT: Final = "prompts/get"
READ: Final = "resources/read"
COMPLETE: Final = "completion/complete"
SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
"""Of legacy sessions; modern clients name resources when they listen."""
METHODS: Final = frozenset({GET_PROMPT, READ, COMPLETE}) | SUBSCRIPTIONS
MORE: Final = ("inputResponses", "requestState")
_REF: Final = members.Known({"type", "name", "uri", "title"})


def needs_more(request: Request, live: Live) -> bool:
    """Whether a tool call is none of the plain ones: progress, answers, log messages that its session asked for, or
    questions to its client.
    """
    params, meta = request.params, request.meta
    if meta.token or meta.log_level:
        return True
    if request.modern:
        return MORE[0] in params or MORE[1] in params
    if request.session is None:
        return False
    if live.level(request.session) is not None:
        return True
    session = request.opened
    return session is not None and session.features is not None


def call_of(route: Route, request: Request, headers: Headers) -> Errand | Rejection:
    """A tool call as an errand, once the headers match the arguments that they repeat."""
    lines, arguments = b"", request.params.get("arguments")
    if route.mirrored:
        misread = mirrored.misread(arguments, route.mirrored)
        if misread is not None:
            return _invalid(request, misread)
        wrong = mirrored.mismatch(arguments, route.mirrored, headers) if request.modern else None
        if wrong is not None:
            return Rejection(400, jsonrpc.HEADER_MISMATCH, wrong, request.id)
        lines = mirrored.lines(arguments, route.mirrored)
    reach = msgspec.structs.replace(route.reach, timeout=route.timeout, impatient=route.impatient)
    params = {**request.params, "name": route.name_raw}
    return Errand(
        reach, CALL, params, route.name, lines, route.recorder, route.check, route.meter, route.idempotent, route,
        route.escapes,
    )  # fmt: skip


def resolve(offers: Offers, request: Request) -> Errand | Rejection:
    """Whom a request means, as far as the view shows it."""
    try:
        if request.method == COMPLETE:
            return _completion(offers, request)
        member = "uri" if request.method in SUBSCRIPTIONS else eras.NAMED[request.method]
        name = jsonrpc.decode_text(request.params[member])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return _invalid(request, "a required parameter is missing or of the wrong type")
    asked = offers.prompt(name) if request.method == GET_PROMPT else offers.resource(name)
    if asked is None:
        if request.method == GET_PROMPT:
            return _invalid(request, f"Unknown prompt: {name}")
        return not_found(request, name)
    reach, own = asked
    params = {**request.params, member: Raw(jsonrpc.encode(own))}
    again, escapes = request.method not in SUBSCRIPTIONS, offers.escapes(reach.server.key)
    return Errand(reach, request.method, params, own, idempotent=again, escapes=escapes)


def not_found(request: Request, uri: str) -> Rejection:
    """A URI that no server answers for, in the words of the client's era (SEP-2164)."""
    code = jsonrpc.INVALID_PARAMS if request.modern else jsonrpc.RESOURCE_NOT_FOUND
    status = 400 if request.modern else 200
    return Rejection(status, code, "Resource not found", request.id, jsonrpc.encode({"uri": uri}))


def _completion(offers: Offers, request: Request) -> Errand | Rejection:
    ref = jsonrpc.decode_object(request.params["ref"])
    misread = _REF.misread(ref, "params.ref")
    if misread is not None:
        return _invalid(request, misread)
    kind = jsonrpc.decode_text(ref["type"])
    member = "name" if kind == "ref/prompt" else "uri"
    name = jsonrpc.decode_text(ref[member])
    asked = offers.prompt(name) if kind == "ref/prompt" else offers.template(name)
    if asked is None:
        return _invalid(request, f"Unknown reference: {name}")
    reach, own = asked
    ref[member] = Raw(jsonrpc.encode(own))
    params, escapes = {**request.params, "ref": Raw(jsonrpc.encode(ref))}, offers.escapes(reach.server.key)
    return Errand(reach, COMPLETE, params, None, idempotent=True, escapes=escapes)


def _invalid(request: Request, message: str) -> Rejection:
    return Rejection(400 if request.modern else 200, jsonrpc.INVALID_PARAMS, message, request.id)
