"""Groups of settings: their names, values and variables."""

from __future__ import annotations

import pytest
from msgspec import field

from fairlead_api.bad_setting import BadSetting
from fairlead_api.environment import EnvironmentSettings, prefixed


class Tide(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("tide_")):
    height: int = 3
    table: str = field(default="", name="almanac")


class Harbour(EnvironmentSettings, frozen=True, kw_only=True):
    berths: int = 10
    tide: Tide = Tide()


def test_a_setting_of_a_group_has_the_variable_that_its_class_names_it() -> None:
    assert Harbour.variables() == {"FAIRLEAD_BERTHS", "FAIRLEAD_TIDE_HEIGHT", "FAIRLEAD_ALMANAC"}
    assert Harbour.from_env({"FAIRLEAD_TIDE_HEIGHT": "4", "FAIRLEAD_ALMANAC": " "}, berths=7) == Harbour(
        berths=7, tide=Tide(height=4)
    )


def test_settings_of_all_groups_are_given_and_told_by_their_names() -> None:
    values = {"berths": 1, "tide_height": 2, "almanac": "x"}
    assert Harbour.of(**values) == Harbour(berths=1, tide=Tide(height=2, table="x"))
    assert Harbour.of(**values).values() == values


def test_a_setting_is_replaced_and_the_others_of_all_groups_stay() -> None:
    harbour = Harbour(berths=1, tide=Tide(height=2, table="x"))
    assert harbour.replace(tide_height="5") == Harbour(berths=1, tide=Tide(height=5, table="x"))


def test_a_bad_value_in_a_group_is_refused_under_the_name_of_its_variable() -> None:
    with pytest.raises(BadSetting, match="FAIRLEAD_TIDE_HEIGHT is 'high'; it takes a whole number"):
        Harbour.from_env({"FAIRLEAD_TIDE_HEIGHT": "high"})
    with pytest.raises(BadSetting, match="FAIRLEAD_TIDE_HEIGHT is 'low'"):
        Harbour().replace(tide_height="low")


@pytest.mark.parametrize("name", ["height", "tide", "depth"])
def test_a_name_that_no_setting_has_is_not_taken_for_one(name: str) -> None:
    with pytest.raises(TypeError, match=f"Harbour has no setting {name}"):
        Harbour.of(**{name: 1})
