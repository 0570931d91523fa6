"""The gateway's lists contain only entries that are valid by the published schemas, and an invalid entry removes no
other."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import jsonschema_rs
import pytest
from mcp_types import _v2025_11_25, _v2026_07_28
from pydantic import BaseModel

from definition_corpus import LISTED, REVISIONS, corpus, list_schemas
from fairlead_gateway.catalog.model import build
from fairlead_gateway.policy.view import View
from fairlead_operator.discovery.findings import ListingFindings
from oddservers import good_server, odd_server
from selections import select

WORDS: Final = {"Tool": "tool", "Prompt": "prompt", "Resource": "resource", "ResourceTemplate": "resource template"}
METHODS: Final = {
    "Tool": "tools/list",
    "Prompt": "prompts/list",
    "Resource": "resources/list",
    "ResourceTemplate": "resources/templates/list",
}
MODELS: Final[dict[tuple[str, str], type[BaseModel]]] = {
    ("2025-11-25", "Tool"): _v2025_11_25.Tool,
    ("2025-11-25", "Prompt"): _v2025_11_25.Prompt,
    ("2025-11-25", "Resource"): _v2025_11_25.Resource,
    ("2025-11-25", "ResourceTemplate"): _v2025_11_25.ResourceTemplate,
    ("2026-07-28", "Tool"): _v2026_07_28.Tool,
    ("2026-07-28", "Prompt"): _v2026_07_28.Prompt,
    ("2026-07-28", "Resource"): _v2026_07_28.Resource,
    ("2026-07-28", "ResourceTemplate"): _v2026_07_28.ResourceTemplate,
}
"""The SDK's generated models of the specification, by revision and definition."""


@cache
def discover() -> tuple[View, ListingFindings]:
    """The merged endpoint of both servers, and the findings about the malformed one."""
    odd, findings = odd_server()
    return select(build({"good": good_server(), "odd": odd})).targets[b"/mcp"], findings


def listing(listed: str, revision: str) -> list[dict[str, Any]]:
    """The entries that a client of the revision gets."""
    view, _ = discover()
    if listed == "Tool":
        raw = b"".join(view.legacy_listing if revision == "2025-11-25" else view.listing)
    else:
        raw = view.resources.listings[METHODS[listed]]
    entries: list[dict[str, Any]] = next(iter(json.loads(raw + b"}").values()))
    return entries


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("listed", LISTED)
def test_every_entry_of_a_list_fits_the_published_schema_of_its_clients(listed: str, revision: str) -> None:
    schema = {**list_schemas(revision), "$ref": f"#/$defs/{listed}"}
    validator = jsonschema_rs.Draft202012Validator(schema)
    entries = listing(listed, revision)
    assert len(entries) > 10, "what can be mended is listed"
    for entry in entries:
        validator.validate(entry)
        MODELS[revision, listed].model_validate_json(json.dumps(entry))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("listed", LISTED)
def test_the_entries_of_a_good_server_are_listed_beside_a_server_with_odd_ones(listed: str, revision: str) -> None:
    expected = "good" if listed.startswith("Resource") else "good__good"
    assert expected in [entry["name"] for entry in listing(listed, revision)]


@pytest.mark.parametrize("listed", LISTED)
def test_every_entry_that_is_left_out_is_told_with_its_name_and_a_cause(listed: str) -> None:
    _, findings = discover()
    left_out = [fault for fault in findings.faults if fault.left_out and fault.noun == WORDS[listed]]
    assert len(left_out) + len(listing(listed, "2026-07-28")) - 1 == len([*corpus(listed)])
    assert all(fault.why for fault in left_out)
    mended = [fault for fault in findings.faults if not fault.left_out and fault.noun == WORDS[listed]]
    assert mended
    assert all(fault.why for fault in mended)


@pytest.mark.parametrize("listed", sorted({*LISTED} - {"Tool"}))
def test_only_tools_have_another_shape_in_the_older_revision(listed: str) -> None:
    old, new = (json.dumps(_resolve_references(listed, revision), sort_keys=True) for revision in REVISIONS)
    assert old == new


_OPEN: Final[tuple[str, Any]] = ("additionalProperties", {})


def _resolve_references(listed: str, revision: str) -> Any:
    """A definition with references replaced by their targets, and one spelling for open objects."""

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(list_schemas(revision)["$defs"][value["$ref"].rpartition("/")[2]])
            return {name: resolve(member) for name, member in value.items() if (name, member) != _OPEN}
        return [resolve(item) for item in value] if isinstance(value, list) else value

    return resolve(list_schemas(revision)["$defs"][listed])
