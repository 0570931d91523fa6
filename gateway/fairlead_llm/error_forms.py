"""Bodies of errors in the form that the SDKs of each kind of API read. Pure module."""

from __future__ import annotations

from fairlead_formats.provider import ProviderKind
from fairlead_formats.wire.errors import LlmError
from fairlead_llm.wire_formats import FORMAT_OF_KIND


def error_body(kind: ProviderKind, error: LlmError) -> bytes:
    """The body of an error for clients of that kind of API."""
    return FORMAT_OF_KIND[kind].error_body(error)
