"""HTML of the pages at which users sign in to servers.

They run no scripts, load nothing, and cannot be framed. What servers and authorization servers say is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from starlette.responses import Response

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;"
    "padding:0 1.25rem}h1{font-size:1.4rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.3rem 1rem}dt{opacity:.7}"
    "dd{margin:0;overflow-wrap:anywhere}button{font:inherit;padding:.5rem 1.2rem}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}
_NO_REFERRER: Final = "no-referrer"
_OWN_REFERRER: Final = "same-origin"
"""Policy of a page with a form: with `no-referrer` browsers send the origin `null` with forms."""


def message_page(title: str, text: str, status: int = 200) -> Response:
    """Page with one message."""
    return _page(title, f"<p>{escape(text)}</p>", status)


def onward_page(title: str, text: str, url: str, label: str) -> Response:
    """Page that loads a URL at once, by a link, not by a redirect: `form-action` forbids that of a form to another
    `form-action` forbids the redirect of a form to
    """
    head = f'<meta http-equiv="refresh" content="0; url={escape(url)}">'
    body = f'<p>{escape(text)}</p><p><a href="{escape(url)}">{escape(label)}</a></p>'
    return _page(title, body, head=head)


def form_page(title: str, facts: Sequence[tuple[str, str]], note: str, action: str, token: str, label: str) -> Response:
    """Page with facts, a note, which may be empty, and a form that posts `token` to `action`."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    form = (
        f'<form method="post" action="{escape(action)}"><input type="hidden" name="token" value="{escape(token)}">'
        f'<button type="submit">{escape(label)}</button></form>'
    )
    text = f"<p>{escape(note)}</p>" if note else ""
    return _page(title, f"<dl>{rows}</dl>{text}{form}", referrer=_OWN_REFERRER)


def choice_page(title: str, text: str, choices: Sequence[tuple[str, str]], status: int = 200) -> Response:
    """Page with links, each a label and a URL."""
    links = "".join(f'<p><a href="{escape(url)}">{escape(label)}</a></p>' for label, url in choices)
    return _page(title, f"<p>{escape(text)}</p>{links}", status)


def decision_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    action: str,
    hidden_fields: Mapping[str, str],
    confirmation: str = "",
) -> Response:
    """Page with facts, notes, and a form that posts `hidden_fields` and `decision`, `allow` or `deny`, to `action`.
    Nobody can allow without ticking the box `confirmation`, if there is one.
    """
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    text = "".join(f"<p>{escape(note)}</p>" for note in notes)
    fields = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in hidden_fields.items()
    )
    box = f'<p><label><input type="checkbox" required> {escape(confirmation)}</label></p>' if confirmation else ""
    form = (
        f'<form method="post" action="{escape(action)}">{fields}{box}'
        '<button type="submit" name="decision" value="allow">Allow</button> '
        '<button type="submit" name="decision" value="deny" formnovalidate>Deny</button></form>'
    )
    return _page(title, f"<dl>{rows}</dl>{text}{form}", referrer=_OWN_REFERRER)


def key_page(
    title: str, facts: Sequence[tuple[str, str]], note: str, help_url: str, action: str, token: str, status: int = 200
) -> Response:
    """Page with facts, a note and a form that posts `key` and `token` to `action`. `help_url` is the URL of the page at
    which the user gets the key, or empty. The page never has the key.
    """
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    link = ""
    if help_url.startswith("https://"):
        target = escape(help_url)
        link = f'<p><a href="{target}" target="_blank" rel="noopener noreferrer">Get the key at {target}</a></p>'
    form = (
        f'<form method="post" action="{escape(action)}" autocomplete="off">'
        f'<input type="hidden" name="token" value="{escape(token)}">'
        '<p><label>Key <input type="password" name="key" required autofocus autocomplete="off" spellcheck="false">'
        '</label></p><button type="submit">Save the key</button></form>'
    )
    return _page(title, f"<dl>{rows}</dl>{link}<p>{escape(note)}</p>{form}", status=status, referrer=_OWN_REFERRER)


def _page(title: str, body: str, status: int = 200, *, head: str = "", referrer: str = _NO_REFERRER) -> Response:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{head}</head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    headers = {**_HEADERS, "referrer-policy": referrer}
    return Response(text.encode("utf-8", "replace"), status, headers, "text/html; charset=utf-8")
