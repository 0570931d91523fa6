"""URI templates of servers (RFC 6570), and which URIs they can make. Pure module.

Matching takes time in proportion to the URI, whatever a server's template is: it runs in the loop.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import jsonschema_rs

MAX_TEMPLATE: Final = 2048
"""Characters of a template that is matched against."""
MAX_URI: Final = 8192
"""Characters of a URI that is matched."""
MAX_EXPRESSIONS: Final = 16
MAX_SHARED: Final = 1024
"""Templates that are compiled once for all views; each takes about 11 KB."""
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_ANY: Final = r"[\s\S]*"
_OF_OPERATOR: Final = MappingProxyType(
    {"+": _ANY, "#": f"(?:#{_ANY})?", "/": f"(?:/{_ANY})?", "?": rf"(?:\?{_ANY})?", "&": f"(?:&{_ANY})?"}
)


class UriTemplate:
    """URIs of a template, whatever values its variables have: an expression stands for anything but what separates
    parts of a path, one with `+` for anything. One beyond the bounds of this module matches none.
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
            pieces.append(_OF_OPERATOR.get(expression.group(1), "[^/?#]*"))
            end = expression.end()
        pieces.append(re.escape(template[end:]))
        # Its expressions never go back; those of `re` take hours for {a}{b}{c}{d}{e} and a URI that does not fit.
        self._checker = jsonschema_rs.validator_for(
            {"pattern": f"^(?:{''.join(pieces)})$"}, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )

    def matches(self, uri: str) -> bool:
        """Whether the template can make a URI."""
        return self._checker is not None and len(uri) <= MAX_URI and self._checker.is_valid(uri)


@lru_cache(MAX_SHARED)
def uri_template(template: str) -> UriTemplate:
    """The compiled template, the same object for all views."""
    return UriTemplate(template)
