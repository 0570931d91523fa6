"""The pages of the kinds: each kind has a valid example."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from crdrules import SPEC_PAGES, examples
from fairlead_api.crd import KINDS
from fairlead_api.load import load_text


def test_every_kind_has_a_page() -> None:
    assert {page.stem for page in SPEC_PAGES} == {kind.kind_name.lower() for kind in KINDS}


@pytest.mark.parametrize("page", SPEC_PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_are_valid_and_of_its_kind(page: Any) -> None:
    shown = examples(page)
    assert len(shown) >= 2
    for example in shown:
        assert example["kind"].lower() == page.stem
        assert load_text(yaml.safe_dump(example)).problems == []
