"""Parser of dice expressions into syntax trees, with bounds on length and depth. This module has no I/O.

expression := product (("+" | "-") product)*
product    := signed (("*" | "/" | "%") signed)*            division rounds down
signed     := "-"* value
value      := NUMBER | "(" expression ")" | function | dice | group
function   := ("min" | "max" | "abs") "(" expression ("," expression)* ")"
dice       := [NUMBER | "(" expression ")"] "d" (NUMBER | "%" | "F" | "(" expression ")") modifier*
group      := "{" expression ("," expression)* "}" (select | count)*
    modifier   := select | explode | reroll | limit | count
    select     := ("k" | "kh" | "kl" | "d" | "dh" | "dl" | "dr") NUMBER     keep or drop; k = kh, d = dr = dl
    explode    := ("!" | "!!" | "!p") [compare NUMBER]          roll again per hit; !! sums up in one die; !p minus
    1
    reroll     := ("r" | "ro") [compare] NUMBER                 until it no longer matches; ro at most once
    limit      := ("mi" | "ma") NUMBER                          dice below or above count as NUMBER
    count      := (">=" | ">" | "<=" | "<" | "=") NUMBER        pool: counts successes
                | "f" compare NUMBER                            subtracts failures from the successes

A word in square brackets after a value labels the value: `2d6[fire]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

MOST_CHARACTERS: Final = 200
MAX_DEPTH: Final = 16
LARGEST_NUMBER: Final = 1_000_000
"""Largest number in an expression."""

Comparison = Literal[">=", ">", "<=", "<", "="]


class BadExpression(ValueError):
    """A text that is not a dice expression. The message says at which place, and which token is expected there."""


@dataclass(frozen=True)
class Compare:
    """Condition on the value of a die."""

    operator: Comparison
    number: int

    def holds(self, value: int) -> bool:
        """Whether a value meets the condition."""
        match self.operator:
            case ">=":
                return value >= self.number
            case ">":
                return value > self.number
            case "<=":
                return value <= self.number
            case "<":
                return value < self.number
            case "=":
                return value == self.number


@dataclass(frozen=True)
class Select:
    """Keep or drop the highest or lowest dice."""

    keep: bool
    highest: bool
    number: int


@dataclass(frozen=True)
class Explode:
    """Roll another die for each hit. Without a condition, the highest face is a hit."""

    kind: Literal["!", "!!", "!p"]
    compare: Compare | None


@dataclass(frozen=True)
class Reroll:
    """Roll matching dice again, at most once or until they no longer match."""

    compare: Compare
    at_most_once: bool


@dataclass(frozen=True)
class Limit:
    """Smallest or largest value of a die. Values beyond this limit are replaced by the limit."""

    smallest: bool
    number: int


@dataclass(frozen=True)
class Count:
    """Count of matching dice, as successes or as failures."""

    compare: Compare
    success: bool


Modifier = Select | Explode | Reroll | Limit | Count


@dataclass(frozen=True)
class Number:
    """A literal number."""

    value: int


@dataclass(frozen=True)
class Negative:
    """A value with its sign reversed."""

    operand: Node


@dataclass(frozen=True)
class BinaryOperation:
    """Two values and an operator between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Function:
    """Function of values: min, max or abs."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Dice:
    """A number of dice with the same number of sides; `F` stands for Fate dice (−1, 0, 1)."""

    count: Node
    sides: Node | Literal["F"]
    modifiers: tuple[Modifier, ...]
    label: str


@dataclass(frozen=True)
class Group:
    """Group of values. Modifiers select or count the values as if each were a die."""

    members: tuple[Node, ...]
    modifiers: tuple[Modifier, ...]
    label: str


Node = Number | Negative | BinaryOperation | Function | Dice | Group

_SELECTS: Final = {
    "kh": (True, True),
    "kl": (True, False),
    "dh": (False, True),
    "dl": (False, False),
    "dr": (False, False),
    "k": (True, True),
    "d": (False, False),
}
_SELECT: Final = re.compile(r"(kh|kl|k|dh|dl|dr|d)(?=\s*\d)", re.IGNORECASE)
_COMPARE: Final = re.compile(r">=|<=|==|>|<|=")
_FUNCTION: Final = re.compile(r"(min|max|abs)(?=\s*\()", re.IGNORECASE)
_LABEL: Final = re.compile(r"\[([^\[\]]{0,40})\]")


def parse(text: str) -> Node:
    """Tree of a dice expression. Raises BadExpression."""
    if len(text) > MOST_CHARACTERS:
        raise BadExpression(
            f"an expression has at most {MOST_CHARACTERS} characters, but this expression has {len(text)}"
        )
    return _Parser(text).parse()


class _Parser:
    """Recursive-descent parser of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._sum()
        if self._rest():
            raise self._expectation("an operator or the end")
        return node

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression(f"an expression nests at most {MAX_DEPTH} brackets")
        node = self._product()
        while operator := self._take(r"[+-]"):
            node = BinaryOperation(operator, node, self._product())
        self._depth -= 1
        return node

    def _product(self) -> Node:
        node = self._sign()
        while operator := self._take(r"[*/%x×]"):
            node = BinaryOperation("*" if operator in "x×" else operator, node, self._sign())
        return node

    def _sign(self) -> Node:
        is_negative = False
        while sign := self._take(r"[+-]"):
            is_negative ^= sign == "-"
        node = self._value()
        return Negative(node) if is_negative else node

    def _value(self) -> Node:
        if self._take(r"\{"):
            members = self._list(r"\}", "}")
            return Group(members, self._modifiers(of_dice=False), self._label())
        if name := self._match(_FUNCTION):
            self._take(r"\(")
            return Function(name[0].lower(), self._list(r"\)", ")"))
        count: Node
        if self._take(r"\("):
            count = self._sum()
            self._expect(r"\)", "a closing bracket")
        elif (digits := self._digits()) is not None:
            count = Number(digits)
        elif re.match(r"d\s*[\d%F(]", self._rest(), re.IGNORECASE):
            count = Number(1)
        else:
            raise self._expectation("a number, dice such as 2d6, or a bracket")
        if self._take(r"[dD]"):
            return Dice(count, self._sides(), self._modifiers(of_dice=True), self._label())
        self._label()
        return count

    def _sides(self) -> Node | Literal["F"]:
        if self._take(r"%"):
            return Number(100)
        if self._take(r"[fF]"):
            return "F"
        if self._take(r"\("):
            sides = self._sum()
            self._expect(r"\)", "a closing bracket")
            return sides
        return Number(self._number("how many sides the dice have: a number, % or F"))

    def _list(self, closing: str, sign: str) -> tuple[Node, ...]:
        nodes = [self._sum()]
        while self._take(","):
            nodes.append(self._sum())
        self._expect(closing, f"a comma or {sign}")
        return tuple(nodes)

    def _modifiers(self, *, of_dice: bool) -> tuple[Modifier, ...]:
        modifiers: list[Modifier] = []
        while (modifier := self._modifier(of_dice)) is not None:
            modifiers.append(modifier)
        return tuple(modifiers)

    def _modifier(self, of_dice: bool) -> Modifier | None:
        if word := self._match(_SELECT):
            keep, highest = _SELECTS[word[0].lower()]
            return Select(keep, highest, self._number("how many dice"))
        if of_dice and (modifier := self._dice_modifier()) is not None:
            return modifier
        if self._take(r"[fF](?=\s*[<>=])"):
            return Count(self._comparison(), success=False)
        if _COMPARE.match(self._rest()):
            return Count(self._comparison(), success=True)
        return None

    def _dice_modifier(self) -> Modifier | None:
        if kind := self._take(r"!!|!p|!"):
            compare = self._comparison() if _COMPARE.match(self._rest()) else None
            return Explode("!!" if kind == "!!" else "!p" if kind == "!p" else "!", compare)
        if limit := self._take(r"mi|ma"):
            return Limit(limit.lower() == "mi", self._number("a number"))
        if word := self._take(r"ro|r"):
            has_comparison = _COMPARE.match(self._rest())
            compare = self._comparison() if has_comparison else Compare("=", self._number("the value to roll again"))
            return Reroll(compare, at_most_once=word.lower() == "ro")
        return None

    def _comparison(self) -> Compare:
        match = self._match(_COMPARE)
        assert match is not None
        is_negative = bool(self._take("-"))
        number = self._number("a number to compare with")
        operators: dict[str, Comparison] = {">=": ">=", ">": ">", "<=": "<=", "<": "<", "=": "=", "==": "="}
        return Compare(operators[match[0]], -number if is_negative else number)

    def _label(self) -> str:
        match = self._match(_LABEL)
        return match[1].strip() if match else ""

    def _number(self, expected: str) -> int:
        digits = self._digits()
        if digits is None:
            raise self._expectation(expected)
        return digits

    def _digits(self) -> int | None:
        digits = self._take(r"[0-9]+")
        if digits is None:
            return None
        if len(digits) > len(str(LARGEST_NUMBER)) or int(digits) > LARGEST_NUMBER:
            raise BadExpression(f"{digits[:12]} is too large: numbers go up to {LARGEST_NUMBER:,}")
        return int(digits)

    def _expect(self, pattern: str, expected: str) -> None:
        if self._take(pattern) is None:
            raise self._expectation(expected)

    def _take(self, pattern: str) -> str | None:
        match = self._match(re.compile(pattern, re.IGNORECASE))
        return match[0] if match else None

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._rest())
        if match:
            self._position += match.end()
        return match

    def _rest(self) -> str:
        text = self._text[self._position :]
        stripped = text.lstrip()
        self._position += len(text) - len(stripped)
        return stripped

    def _expectation(self, expected: str) -> BadExpression:
        rest_text = self._rest()
        position = f"at {rest_text[:12]!r} (character {self._position + 1})" if rest_text else "at the end"
        return BadExpression(f"{self._text[:60]!r} is not a dice expression: {position} it needs {expected}")
