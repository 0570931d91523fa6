"""Names in Kubernetes' syntax as types of fields: names of objects, labels and annotations.

A structural schema cannot have a pattern for the keys of a map, so validation rules check them. This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from fairlead_api.patterns import LABEL, SUBDOMAIN
from fairlead_api.v1alpha1.rules import ValidationRule

QUALIFIED_PATTERN: Final = r"^([a-z0-9.-]+/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$"
"""Name of a label or annotation. The pattern is more lenient than that of Kubernetes, because a longer pattern would
cost too much in CEL.
"""
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=f"^{SUBDOMAIN}$")]
"""Name of an object: an RFC 1123 subdomain."""
DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=f"^{LABEL}$")]
"""Name of a namespace or container: an RFC 1123 label."""
LABEL_VALUE_PATTERN: Final = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE_PATTERN)]
LabelName = Annotated[str, Field(min_length=1, max_length=317, pattern=QUALIFIED_PATTERN)]

LABEL_NAMES: Final = ValidationRule(
    cel=f"self.all(name, name.matches(r'{QUALIFIED_PATTERN}'))",
    message="each key must be the name of a label or annotation, such as team or example.com/team",
    holds=lambda labels: all(re.fullmatch(QUALIFIED_PATTERN, name, re.ASCII) for name in labels),
)
Labels = Annotated[dict[str, LabelValue], LABEL_NAMES]
"""Labels with their values."""
