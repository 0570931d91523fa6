"""Docstrings of attributes become descriptions of a schema's members, as pydantic would take them."""

from __future__ import annotations

from pydantic import Field

from fairlead_api.v1alpha1.attributedocs import attribute_docs
from fairlead_api.v1alpha1.common import Model


class Shop(Model):
    """A shop."""

    name: str
    """Its name
    over the door."""
    open_at: str = ""
    told: str = Field(default="", description="Told by the field.")
    """Told by the docstring."""

    class Shelf(Model):
        """A shelf."""

        height: int
        """In centimetres."""


class Stall(Shop):
    """A shop without walls."""

    name: str
    place: str = ""
    """Where it stands."""


def test_a_docstring_below_a_field_is_its_own_and_a_field_declared_anew_has_none_of_its_base() -> None:
    assert attribute_docs(Shop) == {"name": "Its name\nover the door.", "told": "Told by the docstring."}
    assert attribute_docs(Stall) == {"place": "Where it stands.", "told": "Told by the docstring."}


def test_classes_inside_of_others_and_of_functions_have_docstrings_too() -> None:
    class Cart(Model):
        wheels: int
        """Usually two."""

    assert attribute_docs(Shop.Shelf) == {"height": "In centimetres."}
    assert attribute_docs(Cart) == {"wheels": "Usually two."}


def test_a_class_without_a_source_has_none() -> None:
    made = type("Made", (Model,), {"__annotations__": {"name": str}, "__module__": "__main__"})
    assert attribute_docs(made) == {}


def test_members_of_a_schema_are_described_by_them_unless_the_field_says_otherwise() -> None:
    members = Shop.model_json_schema(by_alias=True)["properties"]
    assert members["name"]["description"] == "Its name\nover the door."
    assert members["told"]["description"] == "Told by the field."
    assert "description" not in members["openAt"]
