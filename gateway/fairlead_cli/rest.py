"""The gateway's REST plane as the commands see it: one request, one JSON answer, a sentence for whatever goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from fairlead_cli.connecting import CREDENTIAL, Destination
from fairlead_cli.failure import FAILED, USED_WRONGLY, Failure

_MAX_ANSWER: Final = 64 << 20


class _NoRedirects(HTTPRedirectHandler):
    """A credential goes to the host that it was given for, and nowhere else."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class Plane:
    """The REST plane beside an MCP endpoint; the endpoint's tier or server goes with each request."""

    def __init__(self, base: str, headers: dict[str, str], timeout: float, scope: dict[str, str]) -> None:
        self._base = base
        self._headers = headers
        self._timeout = timeout
        self.scope = scope
        """`tier` or `servers`, where the endpoint is one of these."""

    @classmethod
    def of(cls, destination: Destination) -> Plane:
        """From where the other commands connect to. Raises Failure for a URL that is none."""
        parts = urlsplit(destination.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise Failure(f"--url: {destination.url!r} is not an http or https URL", code=USED_WRONGLY)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        scope = {}
        if len(words) == 2 and words[0] == "mcp":
            scope = {"tier": words[1]}
        elif len(words) == 4 and words[0] == "servers":
            scope = {"servers": f"{words[1]}/{words[2]}"}
        elif len(words) == 5 and words[0] == "servers":
            scope = {"servers": f"{words[1]}/{words[2]}", "tier": words[4]}
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        return cls(base, destination.headers, destination.timeout, scope)

    def get(self, path: str, **query: str | Sequence[str]) -> Any:
        """The answer to a GET. Raises Failure."""
        return self._ask(
            Request(f"{self._base}{path}?{urlencode({**self.scope, **query}, doseq=True)}", headers=self._headers)
        )

    def post(self, path: str, body: Any) -> Any:
        """The answer to a POST. Raises Failure."""
        headers = {**self._headers, "Content-Type": "application/json"}
        return self._ask(Request(f"{self._base}{path}", json.dumps(body).encode(), headers))

    def lines(self, path: str, quiet: float, last: str | None) -> Iterator[str]:
        """The lines of an event stream behind the event `last`, until it ends or is silent for `quiet` seconds. Raises
        Failure.
        """
        more = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
        with self._opened(Request(f"{self._base}{path}", headers={**self._headers, **more}), quiet) as answer:
            for line in answer:
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    def _ask(self, request: Request) -> Any:
        with self._opened(request, self._timeout) as answer:
            return json.loads(answer.read(_MAX_ANSWER))

    @contextmanager
    def _opened(self, request: Request, timeout: float) -> Iterator[IO[bytes]]:
        try:
            with build_opener(ProxyHandler({}), _NoRedirects()).open(request, timeout=timeout) as answer:
                yield answer
        except HTTPError as error:
            with error:
                raise self._refused(error) from error
        except TimeoutError as error:
            wait = f"{self._base} did not answer within {timeout:g} s; --timeout gives it more time."
            raise Failure(wait) from error
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            start = "Is a gateway running there? Start one with `fairlead up`, or name it with --url."
            raise Failure(f"cannot reach {self._base}: {reason}. {start}") from error
        except ValueError as error:
            raise Failure(f"{self._base} is no Fairlead gateway: its answer is not JSON") from error

    def _refused(self, error: HTTPError) -> Failure:
        try:
            problem = json.loads(error.read(_MAX_ANSWER))
            detail, code = str(problem["detail"]), str(problem["code"])
        except (ValueError, KeyError, TypeError, OSError):
            return Failure(f"{self._base} answered {error.code} {error.reason}: is it a Fairlead gateway?")
        if code == "UNAUTHENTICATED":
            detail += f". {CREDENTIAL}"
        fits = problem.get("wouldFit")
        if isinstance(fits, list) and fits:
            detail += f". Would fit: {'; or '.join(map(str, fits))}"
        wrong = code.startswith("UNKNOWN_") or code == "INVALID_ARGUMENTS"
        return Failure(detail, code=USED_WRONGLY if wrong else FAILED)
