"""Globs over tool names: anchored, case-sensitive, without classes or escapes, and never slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.policies.globs import Glob, SortedNames, bits_of, flags_of

TABLE = [
    ("web-search", "web-search", True),
    ("web-search", "web-search2", False),
    ("web-search", "a-web-search", False),
    ("web-search", "Web-Search", False),
    ("web", "web-search", False),
    ("*", "", True),
    ("*", "any\nthing", True),
    ("web-*", "web-", True),
    ("web-*", "web-search", True),
    ("web-*", "Web-search", False),
    ("*_file", "read_file", True),
    ("*_file", "read_files", False),
    ("a*a", "a", False),
    ("a*a", "aa", True),
    ("*ab*ab*", "abab", True),
    ("*ab*ab*", "aab", False),
    ("?", "x", True),
    ("?", "", False),
    ("g?t_*", "get_stock", True),
    ("*?", "", False),
    ("*a?c", "xxabc", True),
    ("a?*c", "ac", False),
    ("read_*", "read_../write", True),
    ("dir/*", "dir/sub/tool", True),
    ("[ab]", "a", False),
    ("[ab]", "[ab]", True),
    ("a.c", "abc", False),
    ("\\*", "\\x", True),
    ("\u00e9*", "e\u0301", False),
    ("shop__*", "get_stock", False),
]


@pytest.mark.parametrize(("pattern", "name", "matches"), TABLE)
def test_a_glob_matches_whole_names(pattern: str, name: str, matches: bool) -> None:
    assert Glob(pattern).matches(name) is matches
    assert (SortedNames([name]).matching_bits(pattern) == 1) is matches


def naive(pattern: str, name: str) -> bool:
    """Whether a name matches a glob, directly by the definition of globs."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive(pattern[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and naive(pattern[1:], name[1:])


names = st.lists(st.text("ab_\0", max_size=6) | st.text("ab\U0010ffff", max_size=3), max_size=12)


@given(st.text("ab*?_", min_size=1, max_size=7), names)
def test_a_list_is_matched_as_its_names_are(pattern: str, listed: list[str]) -> None:
    listed.sort()
    bits = SortedNames(listed).matching_bits(pattern)
    expected = [naive(pattern, name) for name in listed]
    assert [bool(flag) for flag in flags_of(bits, len(listed))] == expected
    assert [Glob(pattern).matches(name) for name in listed] == expected


@given(st.sets(st.integers(0, 40)))
def test_bits_and_places_say_the_same(places: set[int]) -> None:
    flags = flags_of(bits_of(places), 41)
    assert {index for index, flag in enumerate(flags) if flag} == places


def test_no_glob_takes_long() -> None:
    began = time.process_time()
    for pattern in ("*a" * 150 + "b", "?*" * 150 + "b", "*" + "a?" * 140 + "b"):
        assert not Glob(pattern).matches("a" * 1000)
        assert SortedNames(["a" * 1000] * 3).matching_bits(pattern) == 0
    assert time.process_time() - began < 30, "it went through more than every place of the name for every part"
