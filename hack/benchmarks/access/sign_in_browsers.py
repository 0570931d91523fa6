"""Program that signs people in through a gateway, as browsers and clients, at a constant rate until SIGTERM.

    python sign_in_browsers.py '{"base": …, "per_minute": …}'

Prints the access token of a first sign-in, then begins each further sign-in when it is due, even if earlier ones are
still running. At the end it prints a line of JSON: milliseconds of each sign-in, and the first failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from authorizationworld import Attempt, hidden_fields, target_of
from oidcprovider import Page, parameters

SECONDS: Final = aiohttp.ClientTimeout(total=20)


class SignInFailed(Exception):
    """An answer does not allow the sign-in to continue. The message quotes it."""


async def sign_in(base: str) -> str:
    """Sign a person in, from the client's first request to a refreshed access token, which is returned. Browser and
    client use one connection each. Raises SignInFailed, OSError, aiohttp.ClientError.
    """
    attempt = Attempt()
    jar = aiohttp.CookieJar(unsafe=True)  # otherwise it rejects cookies of an IP address
    async with (
        aiohttp.ClientSession(cookie_jar=jar, timeout=SECONDS) as browser,
        aiohttp.ClientSession(timeout=SECONDS) as client,
    ):
        consent = await _page(browser, "GET", f"{base}/oauth/authorize?{urlencode(attempt.query)}")
        fields = {**hidden_fields(consent), "decision": "allow"}
        answer = parameters(target_of(await _page(browser, "POST", f"{base}/oauth/consent", fields)))
        redeemed = {
            "grant_type": "authorization_code",
            "code": answer.get("code", ""),
            "redirect_uri": attempt.redirect_uri,
            "client_id": attempt.client_id,
            "code_verifier": attempt.verifier,
        }
        tokens = await _tokens(client, base, redeemed)
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return str((await _tokens(client, base, {**refresh, "client_id": attempt.client_id}))["access_token"])


async def _page(browser: aiohttp.ClientSession, verb: str, url: str, fields: dict[str, str] | None = None) -> Page:
    """Request a URL. A GET follows redirects; a POST, which has `fields`, returns the redirect itself. Raises
    SignInFailed.
    """
    headers = {"accept": "text/html", "origin": url.partition("/oauth/")[0]} if fields else {"accept": "text/html"}
    async with browser.request(verb, url, headers=headers, data=fields, allow_redirects=fields is None) as answer:
        text = await answer.text()
        if answer.status not in (200, 303):
            raise SignInFailed(f"{verb} {answer.url.path}: {answer.status}: {text[-300:]}")
        return Page(answer.status, text, answer.headers.get("location", ""), [], {})


async def _tokens(client: aiohttp.ClientSession, base: str, fields: dict[str, str]) -> dict[str, Any]:
    """Answer of the token endpoint. Raises SignInFailed."""
    async with client.post(f"{base}/oauth/token", data=fields) as answer:
        tokens: dict[str, Any] = await answer.json()
        if answer.status != 200:
            raise SignInFailed(f"{fields['grant_type']}: {answer.status}: {tokens}")
        return tokens


class Crowd:
    """Running and finished sign-ins."""

    def __init__(self, base: str) -> None:
        self._base = base
        self.running: set[asyncio.Task[None]] = set()
        self.times_ms: list[float] = []
        self.failure = ""

    def begin(self) -> None:
        """Begin another sign-in."""
        task = asyncio.create_task(self._sign_in())
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def _sign_in(self) -> None:
        began = time.monotonic()
        try:
            await sign_in(self._base)
        except (SignInFailed, OSError, aiohttp.ClientError, AssertionError) as error:
            self.failure = self.failure or f"{type(error).__name__}: {error}"
        else:
            self.times_ms.append((time.monotonic() - began) * 1e3)


async def main(base: str, per_minute: float) -> None:
    """Sign people in until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    print(await sign_in(base), flush=True)
    crowd = Crowd(base)
    due = time.monotonic()
    while not ending.is_set():
        crowd.begin()
        due += 60 / per_minute
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), max(0.0, due - time.monotonic()))
    await asyncio.gather(*crowd.running)
    print(json.dumps({"times_ms": crowd.times_ms, "failure": crowd.failure}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
