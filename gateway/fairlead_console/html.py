"""Rendering of templates, and the headers of all responses of the console.

Texts of servers, tools and clients are untrusted: Jinja escapes all values, and the content security policy allows only
the console's own scripts and styles. A page that is opened by navigation has the style sheet inline, so that it is
painted without another request; the policy allows this style sheet by its hash.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from fairlead_console import formats
from fairlead_console.static_files import StaticFiles
from fairlead_console.tier_reasons import reason_in_words
from fairlead_console.wording import WORDING

_HERE: Final = Path(__file__).parent
_STYLE: Final = _HERE.joinpath("static", "console.css").read_text("utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; img-src 'self'; "
    f"style-src 'self' 'sha256-{_STYLE_HASH}'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with `no-referrer` browsers send the origin `null` with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of all responses. Inline scripts are forbidden, and inline styles except for the console's style sheet."""
_MIN_COMPRESSED: Final = 1024
"""Minimum size in bytes of a response that is compressed."""


class Templates:
    """Renders the templates of the package. Each gateway has one instance, which is for the worker thread."""

    def __init__(self, static: StaticFiles) -> None:
        loader = FileSystemLoader([_HERE / "templates", _HERE / "pages"])
        self._environment = Environment(
            loader=loader,
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,  # the files do not change, and checking all of them would slow down each page
        )
        self._environment.globals |= {"static": static.url, "style": Markup(_STYLE)}
        self._environment.filters.update(formats.FILTERS, **WORDING, reason=reason_in_words)

    @property
    def names(self) -> list[str]:
        """Names of all templates."""
        return self._environment.list_templates(extensions=["html"])

    def compile(self, name: str) -> None:
        """Compile a template in advance, so that the first page that uses it is some milliseconds faster."""
        self._environment.get_template(name)

    def render(self, name: str, values: Mapping[str, Any]) -> bytes:
        """Render a page as UTF-8."""
        return self._environment.get_template(name).render(values).encode("utf-8", "replace")


def page_answer(body: bytes, status: int, *, accepts_gzip: bool, headers: Mapping[str, str] | None = None) -> Response:
    """Make an HTML response that must not be cached."""
    fields = {**SECURITY_HEADERS, "cache-control": "no-store", "vary": "Accept-Encoding", **(headers or {})}
    if accepts_gzip and len(body) >= _MIN_COMPRESSED:
        fields["content-encoding"] = "gzip"
        body = gzip.compress(body, 5, mtime=0)
    return Response(body, status, fields, "text/html; charset=utf-8")


def redirect(location: str, cookie: str | None = None) -> Response:
    """Make a redirect to GET another page. `cookie` is the value of a `Set-Cookie` header."""
    answer = Response(None, 303, {**SECURITY_HEADERS, "location": location, "cache-control": "no-store"})
    if cookie is not None:
        answer.headers.append("set-cookie", cookie)
    return answer
