"""Matches URIs against the URI templates of servers (RFC 6570). Pure module.

Matching runs in the event loop, so its time has to be linear in the length of the URI, whatever the template is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import jsonschema_rs

MAX_TEMPLATE: Final = 2048
"""Maximum number of characters of a template; longer templates match no URI."""
MAX_URI: Final = 8192
"""Maximum number of characters of a URI; longer URIs match no template."""
MAX_EXPRESSIONS: Final = 16
MAX_SHARED: Final = 1024
"""Maximum number of compiled templates in the cache that all views share; each takes about 11 KB."""
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_ANY: Final = r"[\s\S]*"
_PATTERNS: Final = MappingProxyType(
    {"+": _ANY, "#": f"(?:#{_ANY})?", "/": f"(?:/{_ANY})?", "?": rf"(?:\?{_ANY})?", "&": f"(?:&{_ANY})?"}
)


class UriTemplate:
    """Compiled URI template. An expression matches any text without path separators; an expression with `+` matches any
    text. A template beyond the limits of this module matches no URI.
    """

    __slots__ = ("_checker",)

    def __init__(self, template: str) -> None:
        expressions = [*_EXPRESSION.finditer(template)]
        self._checker = None
        if len(template) > MAX_TEMPLATE or len(expressions) > MAX_EXPRESSIONS:
            return
        pieces, end = [], 0
        for expression in expressions:
            pieces.append(re.escape(template[end : expression.start()]))
            pieces.append(_PATTERNS.get(expression.group(1), "[^/?#]*"))
            end = expression.end()
        pieces.append(re.escape(template[end:]))
        # These regular expressions do not backtrack; `re` takes hours for {a}{b}{c}{d}{e} and a URI without a match.
        self._checker = jsonschema_rs.validator_for(
            {"pattern": f"^(?:{''.join(pieces)})$"}, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )

    def matches(self, uri: str) -> bool:
        """Whether the template can expand to a URI."""
        return self._checker is not None and len(uri) <= MAX_URI and self._checker.is_valid(uri)


@lru_cache(MAX_SHARED)
def uri_template(template: str) -> UriTemplate:
    """Compiled template from the shared cache."""
    return UriTemplate(template)
