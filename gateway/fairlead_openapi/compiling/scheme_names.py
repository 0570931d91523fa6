"""Names of security schemes: the names in a document, and the names that credentials are for. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from fairlead_openapi.compiling.report import CompiledDocument

MAX_NAMES: Final = 100
"""Maximum number of a document's schemes whose names are kept."""
MAX_LENGTH: Final = 256
"""Maximum characters of a name that is kept."""
_MAX_SHOWN_NAMES: Final = 10


def scheme_names(document: CompiledDocument) -> tuple[str, ...] | None:
    """Sorted names of the schemes that a document declares or its operations require; None if they exceed a limit."""
    names = {*document.schemes}
    for tool in document.tools:
        for alternative in tool.operation.security:
            names.update(alternative)
    if len(names) > MAX_NAMES or any(len(name) > MAX_LENGTH for name in names):
        return None
    return tuple(sorted(names))


def explain_unknown(credentials: Iterable[str], schemes: Sequence[str]) -> str:
    """A clause about the credentials that are for none of a document's `schemes`; empty if there are none."""
    unknown_names = sorted({*credentials} - {*schemes})
    if not unknown_names:
        return ""
    names_text = ", ".join(name + _similar_scheme(name, schemes) for name in unknown_names)
    more = f" and {len(schemes) - _MAX_SHOWN_NAMES} more" if len(schemes) > _MAX_SHOWN_NAMES else ""
    return (
        f"openapi.credentials names security schemes that the document does not have ({names_text}), so these "
        f"credentials are never sent; the document has {', '.join(schemes[:_MAX_SHOWN_NAMES]) or 'no schemes'}{more}"
    )


def _similar_scheme(name: str, schemes: Sequence[str]) -> str:
    by_lower_case = {scheme.lower(): scheme for scheme in schemes}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f": did you mean {by_lower_case[matches[0]]}?" if matches else ""
