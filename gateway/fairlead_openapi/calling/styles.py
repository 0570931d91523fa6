"""Serialization of parameters by style (OpenAPI 3.1, "Style Values"; RFC 6570). No I/O.

| style | place | list, with explode | object, with explode |
|---|---|---|---|
| simple | path, header | `a,b`, `a,b` | `k,v`, `k=v` |
| label | path | `.a,b`, `.a.b` | `.k,v`, `.k=v` |
| matrix | path | `;n=a,b`, `;n=a;n=b` | `;n=k,v`, `;k=v` |
| form | query, cookie, form | `n=a,b`, `n=a&n=b` | `n=k,v`, `k=v` |
| spaceDelimited | query, form | `n=a%20b`, `n=a&n=b` | `n=k%20v`, `k=v` |
| pipeDelimited | query, form | `n=a%7Cb`, `n=a&n=b` | `n=k%7Cv`, `k=v` |
| deepObject | query, form | `n[]=a&n[]=b` | `n[k]=v` |

OpenAPI does not specify how `deepObject` writes lists. Scalars in a list get the name `n[]`, and objects in a list get
a number in brackets, as servers of such APIs (PHP, Rails, qs, Stripe) expect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from msgspec import Raw

from fairlead_api.documents.operations import Style
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_openapi.calling.values import Value, check_number, items_of, kind_of, members_of, text_of, value_of

Encode: TypeAlias = Callable[[str], str]

RESERVED_IN_VALUES: Final = ":/?@!$'()*,;"
"""Reserved characters (RFC 3986 section 2.2) that `allow_reserved` keeps. The other reserved characters are escaped,
because they would end the value: `#`, `[`, `]`, and `&`, `=` and `+` of forms.
"""
MAX_DEPTH: Final = 16
"""Limit on the levels of a value that `deepObject` writes."""
MAX_NAME_CHARS: Final = 256
"""Maximum number of characters of a scalar's name, which contains all names above the scalar."""
_SEPARATORS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_PATH_PREFIXES: Final = {"label": ".", "matrix": ";"}


def escape(text: str, safe: str = "") -> str:
    """Percent-encode all but unreserved characters (RFC 3986 section 2.3) and the characters of `safe`."""
    return quote(text, safe=safe, errors="replace")


def encoder(*, allow_reserved: bool) -> Encode:
    """Encoder of values, which with `allow_reserved` keeps RESERVED_IN_VALUES."""
    return partial(escape, safe=RESERVED_IN_VALUES) if allow_reserved else escape


def path_text(name: str, value: Value, style: Style, *, explode: bool, encode: Encode = escape) -> str:
    """Text of a parameter in a path or a header; empty for an empty list or object."""
    prefix = _PATH_PREFIXES.get(style, "")
    separator = prefix if explode and prefix else ","
    has_name = style == "matrix"
    if isinstance(value, str):
        text = encode(value)
        if not has_name:
            return prefix + text
        return f"{prefix}{escape(name)}={text}" if text else f"{prefix}{escape(name)}"
    if not value:
        return ""
    if isinstance(value, dict):
        if explode:
            return prefix + separator.join(f"{encode(key)}={encode(text)}" for key, text in value.items())
        texts = [encode(text) for pair in value.items() for text in pair]
    else:
        texts = [encode(text) for text in value]
        if has_name and explode:
            return "".join(f";{escape(name)}={text}" for text in texts)
    return (f"{prefix}{escape(name)}=" if has_name else prefix) + separator.join(texts)


def pairs(name: str, raw: Raw, style: Style, *, explode: bool, encode: Encode = escape) -> list[str]:
    """`name=value` pairs of a parameter in a query, a cookie or a form; none for null and for an empty list or
    object.
    """
    separator = _SEPARATORS.get(style, ",")
    named_texts = spread(name, raw, style, explode=explode, separator=separator, encode=encode)
    return [f"{escape(key)}={text}" for key, text in named_texts]


def spread(
    name: str, raw: Raw, style: Style, *, explode: bool, separator: str = "", encode: Encode = str
) -> list[tuple[str, str]]:
    """Names and texts that represent a value; none for null and for an empty list or object. `separator` is put between
    the texts of a list or object that does not explode; default: the plain separator of the style.
    """
    if style == "deepObject" and kind_of(raw) in "{[":
        return [(key, encode(text_of(scalar))) for key, scalar in flatten(name, raw)]
    value = value_of(raw)
    if isinstance(value, str):
        return [(name, encode(value))]
    if not value:
        return []
    if explode:
        named_texts = value.items() if isinstance(value, dict) else ((name, text) for text in value)
        return [(key, encode(text)) for key, text in named_texts]
    texts = [text for pair in value.items() for text in pair] if isinstance(value, dict) else value
    return [(name, (separator or unquote(_SEPARATORS.get(style, ","))).join(encode(text) for text in texts))]


def flatten(name: str, raw: Raw) -> list[tuple[str, Raw]]:
    """Scalars in a value, each with its name as `deepObject` writes it. Raises ArgumentsRefused for values that are
    nested too deeply or have too many scalars: each scalar repeats the names above it.
    """
    scalars: list[tuple[str, Raw]] = []
    _flatten(name, raw, scalars, 0)
    return scalars


def _flatten(name: str, raw: Raw, scalars: list[tuple[str, Raw]], depth: int) -> None:
    kind = kind_of(raw)
    if kind not in "{[":
        check_number(len(scalars) + 1)
        scalars.append((name, raw))
        return
    if depth == MAX_DEPTH or len(name) > MAX_NAME_CHARS:
        raise ArgumentsRefused(
            f"An argument is nested too deeply for a parameter or form: at most {MAX_DEPTH} levels, whose names have "
            f"{MAX_NAME_CHARS} characters together"
        )
    if kind == "{":
        for key, member in members_of(raw).items():
            _flatten(f"{name}[{key}]", member, scalars, depth + 1)
        return
    items = items_of(raw)
    is_numbered = any(kind_of(item) in "{[" for item in items)
    for number, item in enumerate(items):
        _flatten(f"{name}[{number if is_numbered else ''}]", item, scalars, depth + 1)
