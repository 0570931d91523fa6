"""Kubernetes' list types as metadata of pydantic fields: lists keyed by a member, and lists of distinct values.

An API server merges such lists item by item and rejects duplicates; pydantic rejects them here with the same message.
This module has no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fairlead_api.v1alpha1.rules import RULE_ERROR

LIST_TYPE: Final = "x-kubernetes-list-type"
MAP_TYPE: Final = "x-kubernetes-map-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"


@dataclass(frozen=True, slots=True)
class Distinct:
    """Requires distinct items: distinct in the member with the JSON name `key`, or as a whole without a key."""

    key: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._refuse_duplicates, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if self.key:
            return {**handler(schema), LIST_TYPE: "map", LIST_MAP_KEYS: [self.key]}
        return {**handler(schema), LIST_TYPE: "set"}

    def _refuse_duplicates(self, items: Sequence[Any]) -> Sequence[Any]:
        shown = [self._identity(item) for item in items]
        first = {text: index for index, text in reversed(list(enumerate(shown)))}
        broken = [(f"[{index}]", f"Duplicate value: {text}") for index, text in enumerate(shown) if first[text] < index]
        if broken:
            raise PydanticCustomError(RULE_ERROR, "{text}", {"text": broken[0][1], "violations": broken})
        return items

    def _identity(self, item: Any) -> str:
        value = {self.key: getattr(item, to_snake(self.key))} if isinstance(item, BaseModel) else item
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
