"""Upstream of an HTTP API that an OpenAPI document describes: each call of a tool is one request of an operation.

`fairlead_openapi.calling` builds the requests, and makes results from the answers. The server's credential is sent only
to the origin of the endpoint. If the document names another origin for an operation, that origin gets neither the
credential nor the values of arguments that are stored in Secrets.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Raw

from fairlead_api.documents.catalog import Credential, OpenApiEndpoint, SentCredential
from fairlead_api.documents.operations import Operation
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_gateway.upstream.api_origin import ApiCall, ApiOrigin, ApiResult, LargeAnswer
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import HttpRefused, McpError, RpcError
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.http.target import InvalidTarget, Target, with_body
from fairlead_mcp.masking import Mask
from fairlead_mcp.messages import ResultMembers
from fairlead_mcp.read_bounds import LONG_BYTES
from fairlead_openapi.calling.answers import AnswerForm, content_of, error_result, is_fault_of_call, result_of
from fairlead_openapi.calling.credentials import credential_for
from fairlead_openapi.calling.requests import HttpRequest, build_request
from fairlead_openapi.calling.values import arguments_of

MAX_ORIGINS: Final = 16
"""Limit on the origins of one document's operations."""
_CALL: Final = "tools/call"
_PING: Final = "ping"
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
"""Methods whose requests have a `Content-Length` even without a body (RFC 9110 section 8.6)."""
_OTHER_ORIGIN: Final = (
    "the operation is at another origin than the server's URL, {origin}, to which the server's credential is not sent"
)
_NO_CREDENTIAL: Final = SentCredential()
_RESULT_MEMBERS: Final = ResultMembers(content=[])
_ERROR_MEMBERS: Final = ResultMembers(is_error=True, content=[])
MakeResult: TypeAlias = Callable[[AnswerForm, bytes, int], Coroutine[Any, Any, Raw]]
"""Makes the result of a large answer outside of the event loop. Parameters: the answer's form and body, and the maximum
bytes of the result. Raises HeldUp, TooLarge.
"""


@dataclass(frozen=True, kw_only=True)
class ApiAccess:
    """Access to an API: its credential, headers of every request, TLS, and the resolver of hosts."""

    credential: Credential
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    """Trust settings for `https` at the endpoint's own origin."""
    system_tls: ssl.SSLContext
    """Trust settings for `https` at other origins."""
    make_result: MakeResult
    resolve: Resolve = resolve_by_dns


class OpenApiUpstream(Upstream):
    """Upstream of the operations of one API, by the names of their tools. `limit` is the maximum number of concurrent
    calls.
    """

    def __init__(
        self, endpoint: OpenApiEndpoint, operations: Mapping[str, Operation], access: ApiAccess, *, limit: int
    ) -> None:
        self._operations = operations
        self._access = access
        self._limit = limit
        self._next_number = itertools.count(1).__next__
        self._mask = Mask(access.credential)
        self._target = Target.from_url(endpoint.url, endpoint.host_header)
        self._endpoint_origin = self._connect(self._target, access.tls)
        self._lines = b"".join(
            b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in access.headers.items()
        )
        """Lines of the headers of every request."""
        self._other_origins: dict[tuple[bool, str, int], ApiOrigin] = {}

    @property
    def modern(self) -> bool:
        return False

    @property
    def accepts_tasks(self) -> bool:
        return False

    def next_id(self) -> bytes:
        return b"%d" % self._next_number()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        if request.method == _PING:
            return self._endpoint_origin.ping(request, sink)
        try:
            call = self._call(request, sink)
        except McpError as error:
            sink.take_error(self._mask.error(error))
            return NO_OP_PENDING
        return call

    def gauges(self) -> Gauges:
        gauges = [origin.gauges() for origin in self._origins()]
        return Gauges(*(sum(numbers) for numbers in zip(*gauges, strict=True)))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await asyncio.gather(*[origin.aclose(grace) for origin in self._origins()])

    # Internals

    def _origins(self) -> list[ApiOrigin]:
        return [self._endpoint_origin, *self._other_origins.values()]

    def _call(self, request: UpstreamRequest, sink: ResponseSink) -> ApiCall:
        """Send the request of a call. Raises McpError."""
        if request.method != _CALL:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"an HTTP API has no {request.method}")
        members = jsonrpc.decode_object(request.params)
        name = jsonrpc.decode_text(members["name"])
        operation = self._operations.get(name)
        if operation is None:
            raise McpError(f"the server's catalog has no operation for the tool {name}")
        target = Target.from_url(operation.base_url) if operation.base_url else self._target
        origin = self._origin(target)
        sends_credential = origin is self._endpoint_origin
        has_secrets = name in self._access.credential.arguments
        if has_secrets and not sends_credential:
            raise InvalidTarget(
                f"{_OTHER_ORIGIN.format(origin=operation.base_url)}, nor the secret arguments of {name}"
            )
        credential = credential_for(operation, self._access.credential) if sends_credential else _NO_CREDENTIAL
        token = request.authorization if sends_credential else b""
        arguments = arguments_of(members.get("arguments"))
        http_request = build_request(
            operation, arguments, target.path, credential, added_header=token.decode("latin-1").partition(":")[0]
        )
        path = operation.path if has_secrets else http_request.target.partition(b"?")[0].decode()
        mask = self._mask.with_value(token.decode("latin-1").partition(": ")[2].strip()) if token else self._mask

        def read(answer: Answer) -> ApiResult | LargeAnswer:
            try:
                form, body = content_of(operation, path, answer)
            except HttpRefused as error:
                if not sends_credential and error.status in (401, 403):
                    hint = _OTHER_ORIGIN.format(origin=operation.base_url)
                    return ApiResult(error_result(f"{error}; {hint}"), _ERROR_MEMBERS)
                refusal = mask.error(error)
                if is_fault_of_call(refusal):
                    return ApiResult(error_result(str(refusal)), _ERROR_MEMBERS)
                raise
            if len(body) <= LONG_BYTES:
                return ApiResult(result_of(form, body), _RESULT_MEMBERS)
            make = partial(self._access.make_result, form, body, request.max_bytes)
            return LargeAnswer(len(body), make, _RESULT_MEMBERS)

        call = ApiCall(origin, request, sink, self._data(origin, http_request, request, token), read)
        origin.submit(call)
        return call

    def _data(self, origin: ApiOrigin, http_request: HttpRequest, request: UpstreamRequest, token: bytes) -> bytes:
        """The complete HTTP request."""
        start = b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (
            http_request.method.encode(),
            http_request.target,
            origin.target.authority,
        )
        head = b"".join((start, http_request.lines, self._lines, request.header_lines, token))
        if http_request.body is None and http_request.method not in _WITH_BODY:
            return head + b"\r\n"
        return with_body(head, http_request.body or b"")

    def _origin(self, target: Target) -> ApiOrigin:
        """Connections for a base URL. Raises InvalidTarget beyond MAX_ORIGINS."""
        key = (target.tls, target.host, target.port)
        if key == (self._target.tls, self._target.host, self._target.port):
            return self._endpoint_origin
        origin = self._other_origins.get(key)
        if origin is None:
            if len(self._other_origins) >= MAX_ORIGINS:
                raise InvalidTarget(f"the operations of the API are at more than {MAX_ORIGINS} other origins")
            origin = self._other_origins[key] = self._connect(target, self._access.system_tls)
        return origin

    def _connect(self, target: Target, tls: ssl.SSLContext) -> ApiOrigin:
        access = self._access
        trust = tls if target.tls else None
        return ApiOrigin(target, trust, access.resolve, limit=self._limit, headers=access.headers)
