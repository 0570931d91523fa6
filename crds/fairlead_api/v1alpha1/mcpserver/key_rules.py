"""Validation rules of `spec.auth.userKey`: where a person's key goes, and what is said about it.

Each rule has the CEL for the API server, the message, and the same condition in Python. This module has no I/O.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.mcpserver.spec_rules import HOST, matcher
from fairlead_api.v1alpha1.rules import ValidationRule

_HELP_URL: Final = rf"^https://{HOST}([/?#][!$-;=?-Z_a-z~#]*)?$"
_PRINTABLE: Final = r"^[!-~]+$"

HELP_URL: Final = ValidationRule(
    cel=f"self.matches(r'{_HELP_URL}')",
    message="must be an https URL without user name, such as https://example.com/settings/keys",
    holds=matcher(_HELP_URL),
)
HEADER_PREFIX: Final = ValidationRule(
    cel=f"self.matches(r'{_PRINTABLE}')",
    message="must consist of printable ASCII characters without blanks, such as Bearer; a blank follows it by itself",
    holds=matcher(_PRINTABLE),
)
KEY_BEGINNING: Final = ValidationRule(
    cel=f"self.matches(r'{_PRINTABLE}')",
    message="must consist of printable ASCII characters without blanks, such as ghp_",
    holds=matcher(_PRINTABLE),
)
KEY_PLACE: Final = ValidationRule(
    cel="has(self.header) != has(self.env)",
    message="userKey: set exactly one of header, for a server that is reached by HTTP, and env, for a program that "
    "Fairlead starts",
    holds=lambda key: (key.header is None) != (key.env is None),
)
