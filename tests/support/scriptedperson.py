"""A user with a browser, for clients that open a page to sign in: follows redirects, logs in at Dex, Keycloak or
`oidc-provider`, and allows everything, until a page has no more forms. Can also be a program that such clients start as
the browser.

    text = await visit(url, login={"login": "ann@example.com", "password": "password"})
    environment = browser_environment(folder, login)      # for a client that is a process
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping
from html import unescape
from http.cookies import BaseCookie
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import aiohttp
from yarl import URL

MAX_PAGES: Final = 12
_FORM: Final = re.compile(r'<form[^>]*\bmethod="post"[^>]*>', re.IGNORECASE)
_ACTION: Final = re.compile(r'\baction="([^"]*)"')
_HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"\s*/?>')
_ONWARD: Final = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]+)">')
_NOWHERE: Final = URL()
_PROGRAM: Final = """#!{python}
import asyncio, json, sys
sys.path.insert(0, {support!r})
from scriptedperson import visit
asyncio.run(visit(sys.argv[-1], json.loads({login!r})))
"""


class _LoopbackCookies(aiohttp.CookieJar):
    """Cookies of servers on this machine. Like browsers, sends `Secure` cookies to them even without TLS."""

    def filter_cookies(self, request_url: URL = _NOWHERE) -> BaseCookie[str]:
        return super().filter_cookies(request_url.with_scheme("https") if request_url else request_url)


async def visit(url: str, login: Mapping[str, str], pages: list[str] | None = None) -> str:
    """Open a URL and sign in. Returns the text of the last page. `pages` collects all pages; `login` are the fields of
    the login form.
    """
    fields: dict[str, str] | None = None
    async with aiohttp.ClientSession(cookie_jar=_LoopbackCookies(unsafe=True)) as session:
        for _ in range(MAX_PAGES):
            verb = "GET" if fields is None else "POST"
            headers = {} if fields is None else {"origin": str(URL(url).origin())}
            async with session.request(
                verb, URL(url, encoded=True), data=fields, headers=headers, allow_redirects=False
            ) as answer:
                text, location = await answer.text(), answer.headers.get("location", "")
                assert answer.status < 400, f"{url}: {text}"
            fields, next_url = None, location
            if not location:
                if pages is not None:
                    pages.append(text)
                if onward := _ONWARD.search(text):
                    next_url = unescape(onward[1])
                elif form := _FORM.search(text):
                    action = _ACTION.search(form[0])
                    next_url = unescape(action[1]) if action else url
                    hidden = {name: unescape(value) for name, value in _HIDDEN.findall(text)}
                    fields = {**hidden, "decision": "allow"} if 'value="allow"' in text else {**hidden, **login}
                else:
                    return text
            url = urljoin(url, next_url)
    raise AssertionError(f"the pages redirect or ask without end: {url}")


def browser_environment(folder: Path, login: Mapping[str, str]) -> dict[str, str]:
    """Environment in which programs open pages in the browser of a user who signs in."""
    programs = folder / "browser"
    programs.mkdir(exist_ok=True)
    content = _PROGRAM.format(python=sys.executable, support=str(Path(__file__).parent), login=json.dumps(dict(login)))
    for name in ("xdg-open", "x-www-browser"):
        program = programs / name
        program.write_text(content)
        program.chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "BROWSER": str(programs / "xdg-open")}


if __name__ == "__main__":
    asyncio.run(visit(sys.argv[-1], {"login": "ann@example.com", "password": "password"}))
