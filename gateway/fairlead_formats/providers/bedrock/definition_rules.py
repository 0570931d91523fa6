"""Definitions of tools that Amazon Bedrock's Converse API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_formats.providers.bedrock.request_rules import CONVERSE_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck


def definition_faults(tool: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that a definition breaks, except rules about its name."""
    return specification_faults(tool["toolSpec"], check_schema)


def specification_faults(spec: Mapping[str, Any], check_schema: SchemaCheck, index: int = 0) -> Iterator[BrokenRule]:
    """Rules that a `toolSpec` breaks, except rules about its name. `index`: of the tool in the request's tools."""
    at = f"toolConfig.tools.{index}"
    if spec.get("description") == "":
        yield CONVERSE_RULES.broken_rule("converse-tool-description", at=f"{at}.member.toolSpec.description")
    schema = (spec.get("inputSchema") or {}).get("json")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield CONVERSE_RULES.broken_rule("converse-schema-type", at=at)
    elif (why := check_schema(schema)) is not None:
        yield CONVERSE_RULES.broken_rule("converse-schema-valid", at=at, why=why)
