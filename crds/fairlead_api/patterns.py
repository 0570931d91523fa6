"""Patterns of names and addresses, without anchors, in the common syntax of RE2 and Python's `re`. No I/O."""

from __future__ import annotations

from typing import Final

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""RFC 1123 label, such as the name of a namespace; the limit of 63 characters is not included."""
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
"""RFC 1123 subdomain, such as the name of most Kubernetes objects; the limit of 253 characters is not included."""
PORT: Final = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
"""Number of a TCP port, from 1."""
_OCTET: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4_ADDRESS: Final = rf"{_OCTET}(\.{_OCTET}){{3}}"
IPV4_LENGTH: Final = "/(3[0-2]|[12]?[0-9])"
"""Prefix length of a network."""
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
IPV6_ADDRESS: Final = (  # RFC 4291, section 2.2: eight groups, or fewer with `::` once
    rf"(({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,7}}:|:((:{_GROUP}){{1,7}}|:)|"
    + "|".join(rf"({_GROUP}:){{1,{7 - after}}}(:{_GROUP}){{1,{after}}}" for after in range(1, 7))
    + ")"
)
IPV6_LENGTH: Final = "/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"
