"""Dice expressions: results for given dice, and expressions that are refused."""

from __future__ import annotations

import re
from random import Random

import pytest

from fairlead_servers.dice_roller.grammar import BadExpression, parse
from fairlead_servers.dice_roller.rolling import MOST_DICE, Roller


class Falling(Random):
    """Random source with the given results of dice, in order."""

    def __init__(self, *values: int) -> None:
        super().__init__()
        self.left = list(values)

    def randint(self, a: int, b: int) -> int:
        value = self.left.pop(0)
        assert a <= value <= b
        return value


@pytest.mark.parametrize(
    ("text", "falling", "total"),
    [
        ("2 + 3 * 4 - 1", (), 13),
        ("(2 + 3) * 4", (), 20),
        ("7 / 2", (), 3),
        ("-7 / 2", (), -4),
        ("7 % 4", (), 3),
        ("2d6 + 3", (2, 5), 10),
        ("D20", (17,), 17),
        ("d%", (100,), 100),
        ("4dF", (-1, 0, 1, 1), 1),
        ("(1+1)d(2*3)", (4, 6), 10),
        ("0d6", (), 0),
        ("4d6kh3", (3, 1, 6, 4), 13),
        ("4d6k3", (3, 1, 6, 4), 13),
        ("2d20kl1", (18, 4), 4),
        ("4d6dl1", (3, 1, 6, 4), 13),
        ("4d6d1", (3, 1, 6, 4), 13),
        ("4d6dh1", (3, 1, 6, 4), 8),
        ("5d6dh1dl1", (1, 2, 3, 4, 5), 9),
        ("4d6kh9", (1, 1, 1, 1), 4),
        ("2d6!", (6, 2, 6, 1), 15),
        ("1d6!>=5", (5, 6, 2), 13),
        ("1d6!!", (6, 6, 3), 15),
        ("1d6!p", (6, 6, 3), 13),
        ("2d6r1", (1, 4, 1, 5), 9),
        ("1d6r<3", (2, 1, 3), 3),
        ("1d6ro<3", (2, 1), 1),
        ("3d6mi2", (1, 2, 6), 10),
        ("2d6ma5", (6, 2), 7),
        ("5d10>=8", (8, 9, 1, 7, 10), 3),
        ("5d10>=8f=1", (8, 9, 1, 7, 10), 2),
        ("3d6!>=6>=5", (6, 5, 1, 2), 2),
        ("4d6kh3>=4", (5, 4, 6, 6), 3),
        ("{2d6, d12}kh1", (1, 2, 9), 9),
        ("{d6, d8, d10}>=6", (6, 2, 7), 2),
        ("min(d6, 4) + max(d6, 4) + abs(-3)", (6, 1), 11),
        ("2d6[fire] + 1d4[cold]", (1, 2, 3), 6),
        ("--3", (), 3),
    ],
)
def test_an_expression_has_its_total(text: str, falling: tuple[int, ...], total: int) -> None:
    dice = Falling(*falling)
    assert Roller(dice).total(parse(text)) == total
    assert dice.left == []


def test_each_die_says_what_became_of_it() -> None:
    roller = Roller(Falling(6, 2, 3, 5, 8, 1, 5))
    roller.total(parse("3d6!kh3 + 3d10>=8f=1[luck]"))
    first, second = roller.throws
    assert [die.text() for die in first.dice] == ["6!", "5", "~2~", "3"]
    assert [die.text() for die in second.dice] == ["8*", "1-", "5"]
    assert (first.total, second.total, second.label) == (14, 0, "luck")


def test_each_success_and_failure_of_a_die_has_its_mark() -> None:
    roller = Roller(Falling(10, 8, 1, 2, 5))
    assert roller.total(parse("5d10>=8>=10f<=2f=1")) == 0
    assert [die.text() for die in roller.throws[0].dice] == ["10**", "8*", "1--", "2-", "5"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "at the end it needs a number"),
        ("2d", "how many sides"),
        ("2d6 +", "at the end"),
        ("(2d6", "a closing bracket"),
        ("2d6)", "an operator or the end"),
        ("two dice", "at 'two dice' (character 1)"),
        ("4d6k", "at 'k' (character 4)"),
        ("d6; import os", "at '; import os' (character 3)"),
        ("1 / 0", "divides by zero"),
        ("1d1!", "never ends"),
        ("2d6r<7", "never ends"),
        ("1d6!>=1", "never ends"),
        ("1d0", "0 sides"),
        ("1001d6", "0 to 1,000"),
        ("600d6 + 600d6", "more than 1,000 dice"),
        ("999d2!", "more than 1,000 dice"),
        ("(0-1)d6", "-1 dice"),
        ("9999999", "numbers go up to"),
        ("1000000*1000000*1000000", "more than 15 digits"),
        ("(" * 17 + "1" + ")" * 17, "16 brackets"),
        ("1" + "+1" * 100, "200 characters"),
        ("abs(1, 2)", "abs needs exactly one"),
    ],
)
def test_text_that_is_not_a_dice_expression_or_too_much_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(why)):
        Roller(Random(1)).total(parse(text))


def test_random_dice_stay_within_their_faces_and_their_bound() -> None:
    roller = Roller(Random(2))
    roller.total(parse(f"{MOST_DICE}d6"))
    assert {die.value for die in roller.throws[0].dice} == {1, 2, 3, 4, 5, 6}
