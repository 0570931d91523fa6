"""Names of documents and keys."""

from __future__ import annotations

import pytest

from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import LABEL_VALUE_LIMIT, ServerKey, bounded_name, label_value


def test_names_that_join_to_the_same_text_stay_apart() -> None:
    assert catalog_name(ServerKey("a-b", "c")) != catalog_name(ServerKey("a", "b-c"))


def test_a_long_name_is_truncated_and_stays_unique() -> None:
    first, second = (catalog_name(ServerKey("team", "x" * 240 + end)) for end in "ab")
    assert first != second
    assert max(len(first), len(second)) <= 200


def test_truncation_never_leaves_two_separators_in_a_row() -> None:
    assert "--" not in bounded_name("a" * 10 + "-", "b", limit=22)


def test_a_label_value_is_itself_where_it_fits() -> None:
    assert label_value("time") == "time"
    assert len(label_value("y" * 200)) <= LABEL_VALUE_LIMIT


def test_a_key_reads_back_what_it_prints() -> None:
    assert ServerKey.parse(str(ServerKey("team", "time"))) == ("team", "time")


@pytest.mark.parametrize("text", ["", "time", "/time", "team/", "a/b/c"])
def test_text_that_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="namespace/name"):
        ServerKey.parse(text)
