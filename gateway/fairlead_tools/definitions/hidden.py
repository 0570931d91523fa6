"""Detection of characters that people do not see but models read. No I/O.

Characters with a use in a script are not reported: joiners within Persian, Indic scripts and emoji, direction marks in
right-to-left text, variation selectors after an emoji or ideograph.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SUSPICIOUS_CHARACTER: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_OUT_OF_VIEW: Final = re.compile(r"[^\S\n]{160}|(?:\n[^\S\n]{0,8}){24}")
"""Matches so much white space that the text after it is outside of the screen."""
_FLAGS: Final = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|"
    "\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""Matches the flags of England, Scotland and Wales, the only legitimate use of tag characters."""
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
)
_WITHOUT_BLANKS: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]")
"""Matches scripts that use zero-width spaces for line breaks: Thai, Lao, Burmese, Khmer, also Japanese and Chinese."""
_DIRECTION_MARKS: Final = frozenset({0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)})
_JOINING: Final = frozenset({"Lo", "Mn", "Mc"})
_LETTERS: Final = frozenset({"Ll", "Lu", "Lt", "Zs", "Cc", "Cf", "Mn"})
MANY: Final = 3
"""Minimum number of consecutive suspicious characters that are reported even in scripts that use such characters."""


def describe_hidden_characters(text: str) -> str:
    """Describe the first hidden character in `text`, with its code point; empty if there is no hidden character. Takes
    linear time."""
    if not text.isascii() and "\U000e0067" in text:
        text = _FLAGS.sub("", text)
    needs: frozenset[str] | None = None
    for match in _SUSPICIOUS_CHARACTER.finditer(text):
        if needs is None:
            needs = _needs(text)
        description = _describe(text, match.start(), needs)
        if description:
            return f"{description} (U+{ord(match.group()):04X})"
    return "text moved out of view by blanks" if _OUT_OF_VIEW.search(text) else ""


def _needs(text: str) -> frozenset[str]:
    """Return the kinds of invisible characters that the scripts in a text need: `direction` for direction marks,
    `breaks` for zero-width spaces.
    """
    needs = {"direction"} if _RIGHT_TO_LEFT.search(text) else set()
    return frozenset(needs | ({"breaks"} if _WITHOUT_BLANKS.search(text) else set()))


def _describe(text: str, at: int, needs: frozenset[str]) -> str:
    code = ord(text[at])
    if code < 0xA0:
        return "an escape sequence for terminals" if code in (0x1B, 0x9B) else "a control character"
    if 0xE0000 <= code < 0xE0080:
        return "invisible tag characters"
    if _is_selector(code):
        return "" if _selects(text, at) else "variation selectors without effect"
    if code in _DIRECTION_MARKS:
        is_allowed = "direction" in needs and code not in (0x202D, 0x202E) and not _is_crowded(text, at)
        return "" if is_allowed else "a character that changes the direction of text"
    if code in (0x200C, 0x200D):
        return "" if _joins(text, at) else "invisible characters"
    if code == 0x200B and "breaks" in needs and not _is_crowded(text, at):
        return ""
    return "invisible characters"


def _is_selector(code: int) -> bool:
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F


def _selects(text: str, at: int) -> bool:
    """Whether a selector follows a character with variants: an emoji, sign, digit of a keycap or ideograph."""
    if at == 0:
        return False
    previous_character = text[at - 1]
    if 0x180B <= ord(text[at]) <= 0x180F:
        return 0x1800 <= ord(previous_character) <= 0x18AF and not _is_selector(ord(previous_character))
    return unicodedata.category(previous_character) not in _LETTERS and not _is_selector(ord(previous_character))


def _joins(text: str, at: int) -> bool:
    """Whether a joiner is between letters of a joining script or between parts of an emoji."""
    if at == 0 or at + 1 >= len(text):
        return False
    previous_character, next_character = text[at - 1], text[at + 1]
    if (
        unicodedata.category(previous_character) in _JOINING
        and ord(previous_character) > 0x2FF
        and not _is_selector(ord(previous_character))
    ):
        return unicodedata.category(next_character) != "Cf"
    return ord(text[at]) == 0x200D and _is_emoji(previous_character) and _is_emoji(next_character)


def _is_emoji(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or 0xFE0E <= ord(character) <= 0xFE0F


def _is_crowded(text: str, at: int) -> bool:
    """Whether MANY suspicious characters follow each other. Such a sequence may encode a message."""
    characters = text[at : at + MANY]
    return len(characters) == MANY and all(_SUSPICIOUS_CHARACTER.match(character) for character in characters)
