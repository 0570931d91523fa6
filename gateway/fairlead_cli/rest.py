"""Client of the gateway's REST API: one request, one JSON response, and a sentence for every error.

Proxies (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and certificates (SSL_CERT_FILE, SSL_CERT_DIR) of the environment
apply, as in `httpx2`; requests to this machine never use a proxy. httpx2 is imported with the first request, because
importing it takes longer than most commands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure
from fairlead_cli.output import some_names
from fairlead_cli.proxies import proxy_mounts
from fairlead_cli.wording import credential_advice, start_advice, with_advice, with_tools_hint

if TYPE_CHECKING:
    import httpx2

    from fairlead_cli.connecting import Destination

_MAX_ANSWER: Final = 64 << 20
_MAX_LINE: Final = 1 << 20
"""Limit on the bytes of one line of an event stream."""
_MAX_PROBLEM: Final = 64 << 10
_CHECK_URL: Final = "check that --url is the address of a Fairlead gateway"


class _Answer(dict[str, Any]):
    """A JSON object of a response. Reading a missing member raises Failure: the URL does not belong to a gateway, or
    the gateway has another version.
    """

    def __init__(self, members: dict[str, Any], base: str) -> None:
        super().__init__(members)
        self._base = base

    def __missing__(self, member: str) -> Any:
        raise Failure(f"{self._base} sent a response without {member!r}; {_CHECK_URL}")


class ManagementClient:
    """Client of the REST API next to an MCP endpoint. Requests are scoped to the endpoint's tier or server."""

    def __init__(self, base: str, headers: dict[str, str], timeout: float, scope: dict[str, str]) -> None:
        self._base = base
        self._headers = headers
        self._timeout = timeout
        self.scope = scope
        """`tier` or `servers`, if the endpoint belongs to a tier or a server."""

    @classmethod
    def of(cls, destination: Destination) -> ManagementClient:
        """The REST API of the gateway at a destination."""
        parts = urlsplit(destination.url)
        segments = [unquote(segment) for segment in parts.path.strip("/").split("/")]
        scope = {}
        if len(segments) == 2 and segments[0] == "mcp":
            scope = {"tier": segments[1]}
        elif len(segments) == 4 and segments[0] == "servers":
            scope = {"servers": f"{segments[1]}/{segments[2]}"}
        elif len(segments) == 5 and segments[0] == "servers":
            scope = {"servers": f"{segments[1]}/{segments[2]}", "tier": segments[4]}
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        return cls(base, destination.headers, destination.timeout, scope)

    def get(self, path: str, **query: str | Sequence[str]) -> Any:
        """The response to a GET. Raises Failure."""
        return self._request("GET", f"{path}?{urlencode(query, doseq=True)}" if query else path)

    def post(self, path: str, body: Any) -> Any:
        """The response to a POST. Raises Failure."""
        return self._request("POST", path, json.dumps(body).encode())

    def put(self, path: str, body: Any) -> Any:
        """The response to a PUT. Raises Failure."""
        return self._request("PUT", path, json.dumps(body).encode())

    def delete(self, path: str) -> Any:
        """The response to a DELETE. Raises Failure."""
        return self._request("DELETE", path)

    def lines(self, path: str, silence_seconds: float, last_event_id: str | None) -> Iterator[str]:
        """The lines of an event stream after the event `last_event_id`, until the stream ends or is silent for
        `silence_seconds` seconds. Raises Failure.
        """
        headers = {"Accept": "text/event-stream", **({} if last_event_id is None else {"Last-Event-ID": last_event_id})}
        with self._open("GET", path, headers, None, silence_seconds) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise Failure(f"{self._base} sent a response that is not an event stream; {_CHECK_URL}")
            unfinished_line = b""
            for piece in answer.iter_bytes():
                *lines, unfinished_line = (unfinished_line + piece).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "replace").rstrip("\r")
                if len(unfinished_line) > _MAX_LINE:
                    raise Failure(f"{self._base} sent a line of more than {_MAX_LINE} bytes; {_CHECK_URL}")

    def _request(self, method: str, path: str, body: bytes | None = None) -> Any:
        with self._open(method, path, {}, body, self._timeout) as answer:
            return self._json(self._read_body(answer))

    def _json(self, data: bytes) -> Any:
        try:
            document = json.loads(data, object_hook=lambda members: _Answer(members, self._base))
        except (ValueError, RecursionError) as error:
            raise Failure(f"{self._base} sent a response that is not JSON; {_CHECK_URL}") from error
        if not isinstance(document, dict):
            raise Failure(f"{self._base} sent a response that is not a JSON object; {_CHECK_URL}")
        return document

    def _read_body(self, answer: httpx2.Response) -> bytes:
        """The body. Raises Failure if it is too large or takes too long."""
        end = time.monotonic() + self._timeout
        pieces, size = [], 0
        for piece in answer.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_ANSWER:
                raise Failure(f"{self._base} sent a response of more than {_MAX_ANSWER >> 20} MiB; {_CHECK_URL}")
            if time.monotonic() > end:
                raise self._timeout_failure(self._timeout)
        return b"".join(pieces)

    @contextmanager
    def _open(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, timeout: float
    ) -> Iterator[httpx2.Response]:
        import httpx2

        content_type = {} if body is None else {"Content-Type": "application/json"}
        request_headers = {"Accept-Encoding": "identity", **content_type, **headers, **self._headers}
        try:
            with (
                httpx2.Client(
                    timeout=httpx2.Timeout(timeout, connect=self._timeout), mounts=proxy_mounts(self._base)
                ) as client,
                client.stream(method, self._base + path, headers=request_headers, content=body) as answer,
            ):
                if not answer.is_success:
                    raise self._refusal(answer)
                yield answer
        except httpx2.TimeoutException as error:
            raise self._timeout_failure(timeout) from error
        except httpx2.ProxyError as error:
            raise Failure(
                f"the proxy for {self._base} rejected the request: {error}; check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
            ) from error
        except (httpx2.RemoteProtocolError, httpx2.DecodingError) as error:
            details = str(error).rstrip(".")
            if "disconnected" in details or "closed connection" in details:
                message = f"{self._base} closed the connection before responding, as a gateway does when it stops"
                raise Failure(f"{message}: try again, or {_CHECK_URL}") from error
            raise Failure(f"{self._base} sent a response that is not valid HTTP: {details}; {_CHECK_URL}") from error
        except (httpx2.HTTPError, OSError) as error:  # OSError: the file in SSL_CERT_FILE
            reason = str(error) or type(error).__name__
            advice = start_advice(self._base)
            if "WRONG_VERSION_NUMBER" in reason:
                reason, advice = "the server does not use TLS", "Try http:// instead of https://."
            if "CERTIFICATE" in reason:
                advice = "Set SSL_CERT_FILE to the certificate authority of the gateway."
                if "mismatch" in reason:  # OpenSSL: "Hostname mismatch", "IP address mismatch"
                    advice = "Use a host in --url that the certificate is for, such as a name of it in /etc/hosts."
            raise Failure(with_advice(f"cannot reach {self._base}: {reason}", advice)) from error
        except (httpx2.InvalidURL, ValueError) as error:  # a proxy in the environment is not a URL
            raise Failure(f"cannot reach {self._base}: {error}; check HTTP_PROXY and HTTPS_PROXY") from error

    def _timeout_failure(self, timeout: float) -> Failure:
        return Failure(f"{self._base} did not respond within {timeout:g} s; --timeout waits longer.")

    def _refusal(self, answer: httpx2.Response) -> Failure:
        data = b""
        for piece in answer.iter_bytes():
            data += piece
            if len(data) > _MAX_PROBLEM:
                break
        try:
            problem = json.loads(data)
            detail, code = str(problem["detail"]), str(problem["code"])
        except (ValueError, KeyError, TypeError, RecursionError):
            answered = f"{self._base} answered {answer.status_code} {answer.reason_phrase}"
            if answer.status_code in (401, 403):
                return Failure(f"{answered}. {credential_advice(self._headers)}")
            return Failure(f"{answered}; {_CHECK_URL}")
        if code == "UNAUTHENTICATED":
            detail = with_advice(detail, credential_advice(self._headers))
        return Failure(_sentence(problem, code, detail), code=_exit_code(code), problem=code)


def _exit_code(code: str) -> int:
    return USAGE_ERROR if code.startswith("UNKNOWN_") or code == "INVALID_ARGUMENTS" else FAILED


def _sentence(problem: dict[str, Any], code: str, detail: str) -> str:
    """A problem document (RFC 9457) as a sentence."""
    alternatives, changes = problem.get("known"), problem.get("wouldFit")
    if code == "UNKNOWN_TOOL":
        return with_tools_hint(detail)
    if isinstance(changes, list) and changes:
        detail = with_advice(detail, f"One of these changes is enough: {'; or '.join(map(str, changes))}")
    if isinstance(alternatives, list) and not all(str(name) in detail for name in alternatives):
        detail = with_advice(detail, f"Valid values: {some_names(map(str, alternatives))}")
    return detail
