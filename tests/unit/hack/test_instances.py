"""The values by which benchmarks and property tests compare schemas."""

from __future__ import annotations

from random import Random

import jsonschema_rs
import pytest

from formats.instances import Instances
from formatschemas import ODDITIES

FAIR = ("ref", "recursion", "const", "prefixItems", "open map", "oneOf", "null in every way", "pointer into properties")


@pytest.mark.parametrize("name", FAIR)
def test_most_values_satisfy_their_schema_and_some_changed_ones_do_not(name: str) -> None:
    schema = ODDITIES[name]
    validator = jsonschema_rs.Draft202012Validator(schema)
    source = Instances(schema, Random(1))
    assert sum(validator.is_valid(source.value()) for _ in range(100)) > 50
    assert not all(validator.is_valid(source.near()) for _ in range(200))


def test_values_are_the_same_for_the_same_chance() -> None:
    schema = ODDITIES["recursion"]
    first, second = (Instances(schema, Random(3)) for _ in range(2))
    assert [first.near() for _ in range(20)] == [second.near() for _ in range(20)]
