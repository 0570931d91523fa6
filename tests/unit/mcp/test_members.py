"""Member names that JSON parsers read differently."""

from __future__ import annotations

import json
import sys

import msgspec
import pytest

from fairlead_mcp.members import AmbiguousMembers, ProtectedNames, canonical_forms, fold, has_repeated_member

# Go's unicode.SimpleFold maps these to ASCII letters, Java's equalsIgnoreCase only the last two
UNUSUAL = {"ſ": "s", "\u212a": "k", "ı": "i", "İ": "i"}


@pytest.mark.parametrize(("character", "letter"), UNUSUAL.items())
def test_letters_outside_of_ascii_pass_for_those_that_go_and_java_take_them_for(character: str, letter: str) -> None:
    assert fold(character) == fold(letter) == fold(letter.upper()) == letter
    assert ProtectedNames({f"a{letter}b"}).explain_misread([f"a{character}b"], "x") is not None


def test_folding_covers_what_python_and_unicode_call_caseless() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        if not character.isascii() and character != "İ":
            assert fold(character) == fold(character.casefold()), hex(number)
    assert fold("e\u0301") == fold("É") == "é"


@pytest.mark.parametrize("member", ["Name", "NAME", "name\0", "NAME\0x", "namE"])
def test_members_that_may_be_taken_for_a_known_name_are_told_with_what_to_do(member: str) -> None:
    message = ProtectedNames({"name", "uri"}).explain_misread(["uri", member], "params")
    assert message == (
        f'params has {json.dumps(member)}, which some parsers read as "name": write "name", or leave it out'
    )


def test_misread_lets_known_names_and_unrelated_names_pass() -> None:
    known_names = ProtectedNames({"name", "Name", "_meta"})
    assert known_names.explain_misread(["name", "Name", "_meta", "x-name", "names", "nam", ""], "params") is None


@pytest.mark.parametrize(
    "document",
    [
        '{"a":1,"a":2}',
        '{ "a": 1, "a": 2 }',
        '{"a":1,"\\u0061":2}',
        '{"b":[{"x":1.0e5},{"a":{"c":1,"c":1}}]}',
        '{"":1,"":1}',
        '{"a":"\\u0022a\\u0022:","a":1}',
        '{"n":' + "1" * 500 + ',"a":1,"a":1}',
    ],
)
def test_a_member_that_comes_twice_is_seen_however_it_is_written(document: str) -> None:
    assert has_repeated_member(document.encode())
    with pytest.raises(AmbiguousMembers, match="twice"):
        canonical_forms(document.encode())


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        "[]",
        '{"a":1,"b":[{"a":1},{"a":1}]}',
        '{ "a" : "\\u00e9", "b": 1.50, "c": 1e40 }',
        '{"a":"{\\"a\\":1,\\"a\\":1}"}',
        '{"n":' + "1" * 500 + "}",
    ],
)
def test_members_that_come_once_are_not_repetitions(document: str) -> None:
    assert not has_repeated_member(document.encode())
    text, alike = canonical_forms(document.encode())
    assert json.loads(text) == json.loads(document)
    assert alike == fold(text)


@pytest.mark.parametrize("pair", ["aA", "sſ", "k\u212a", "iİ", "éÉ"])
def test_two_spellings_of_one_name_are_ambiguous(pair: str) -> None:
    assert not has_repeated_member(json.dumps({pair[0]: 1, pair[1]: 2}).encode())
    for ascii_only in (True, False):
        document = json.dumps({"x": [{pair[0]: 1, "b": 2, pair[1]: 2}]}, ensure_ascii=ascii_only)
        with pytest.raises(AmbiguousMembers, match="case"):
            canonical_forms(document.encode())


def test_no_text_makes_a_document_ambiguous() -> None:
    """Case folding is applied to the whole JSON text, so no character may fold to JSON punctuation."""
    for start in range(0x20, sys.maxunicode + 1, 64):
        characters = [chr(n) for n in range(start, start + 64) if n <= sys.maxunicode and not 0xD800 <= n < 0xE000]
        values = {str(number): f"x{character}y" for number, character in enumerate(characters)}
        canonical_forms(msgspec.json.encode(values))
    canonical_forms(msgspec.json.encode({"a": "".join(map(chr, range(0x80))), "b": 1e16, "c": -1.5e-300, "d": 1 << 70}))
