"""Patterns of names and addresses, without anchors, in what RE2 and Python's `re` have in common. Pure."""

from __future__ import annotations

from typing import Final

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""RFC 1123 label, such as the name of a namespace; one has at most 63 characters."""
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
"""RFC 1123 subdomain, such as the names of most objects of Kubernetes; one has at most 253 characters."""
_OCTET: Final = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
IPV4_ADDRESS: Final = rf"{_OCTET}(\.{_OCTET}){{3}}"
