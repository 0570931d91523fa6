"""Pages from templates, and the header fields that go with each answer of the console.

Everything that a server, a tool or a client wrote is text: Jinja escapes all values, and the policy of content lets no
script or style run but the console's own files. The style sheet is in a page that a browser opens, so that it paints
without asking for another file; the policy names it by its hash.
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
"""Header fields of every answer. There is no inline script, and no inline style but the whole of the console's own."""
_COMPRESSED_FROM: Final = 1024
"""Bytes from which an answer is compressed."""


class Templates:
    """Renders the templates of the package. One per gateway; used in the worker."""

    def __init__(self, static: StaticFiles) -> None:
        loader = FileSystemLoader([_HERE / "templates", _HERE / "pages"])
        self._environment = Environment(
            loader=loader,
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,  # the files of a gateway that runs stay as they are; else each page looks at all of its
        )
        self._environment.globals |= {"static": static.url, "style": Markup(_STYLE)}
        self._environment.filters.update(formats.FILTERS, **WORDING, reason=reason_in_words)

    @property
    def names(self) -> list[str]:
        """All templates."""
        return self._environment.list_templates(extensions=["html"])

    def compile(self, name: str) -> None:
        """Have a template ready, in some milliseconds that its first page would take."""
        self._environment.get_template(name)

    def render(self, name: str, values: Mapping[str, Any]) -> bytes:
        """A page in UTF-8."""
        return self._environment.get_template(name).render(values).encode("utf-8", "replace")


def page_answer(body: bytes, status: int, *, zipped: bool, headers: Mapping[str, str] | None = None) -> Response:
    """An HTML answer, which no cache keeps."""
    fields = {**SECURITY_HEADERS, "cache-control": "no-store", "vary": "Accept-Encoding", **(headers or {})}
    if zipped and len(body) >= _COMPRESSED_FROM:
        fields["content-encoding"] = "gzip"
        body = gzip.compress(body, 5, mtime=0)
    return Response(body, status, fields, "text/html; charset=utf-8")


def redirect(location: str, cookie: str | None = None) -> Response:
    """Have the browser GET another page, and keep a cookie."""
    answer = Response(None, 303, {**SECURITY_HEADERS, "location": location, "cache-control": "no-store"})
    if cookie is not None:
        answer.headers.append("set-cookie", cookie)
    return answer
