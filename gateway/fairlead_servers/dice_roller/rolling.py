"""Evaluates parsed dice expressions by rolling dice, with limits on the number of dice and the size of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from fairlead_servers.dice_roller.grammar import (
    BadExpression,
    BinaryOperation,
    Compare,
    Count,
    Dice,
    Explode,
    Function,
    Group,
    Limit,
    Modifier,
    Negative,
    Node,
    Number,
    Reroll,
    Select,
)

MOST_DICE: Final = 1_000
"""Limit on the dice of one expression, including exploded and rerolled dice."""
MOST_SIDES: Final = 1_000_000
LARGEST_TOTAL: Final = 10**15


@dataclass(eq=False)  # dice with equal values are different objects
class Die:
    """A rolled die. `value` is the final value: after limits (`mi`, `ma`), and for `!!` the sum of all its rolls."""

    value: int
    dropped: bool = False
    exploded: bool = False
    net_successes: int | None = None
    """In a success pool: number of success conditions that the die meets, minus the failure conditions that it meets.
    None without such conditions, and for a dropped die.
    """

    def text(self) -> str:
        """Text of the die: `6!` exploded, `~2~` dropped, `5*` success, `10**` two successes, `1-` failure."""
        net_successes = self.net_successes or 0
        marked_value = f"{self.value}{'!' if self.exploded else ''}{'*' * net_successes}{'-' * -net_successes}"
        return f"~{marked_value}~" if self.dropped else marked_value


@dataclass(frozen=True)
class Throw:
    """Dice that were rolled together."""

    notation: str
    dice: list[Die]
    total: int
    label: str
    is_pool: bool
    """Whether `total` counts successes instead of adding up values."""


@dataclass
class Roller:
    """Rolls one expression, and counts its dice."""

    random: Random
    throws: list[Throw] = field(default_factory=list)
    dice_count: int = 0
    """Number of dice rolled so far, including exploded and rerolled dice."""

    def total(self, node: Node) -> int:
        """Value of an expression; its dice are rolled. Raises BadExpression if it exceeds a limit."""
        total = self._value(node)
        if abs(total) > LARGEST_TOTAL:
            raise BadExpression(f"the result has more than {len(str(LARGEST_TOTAL)) - 1} digits; use smaller numbers")
        return total

    def _value(self, node: Node) -> int:
        match node:
            case Number(value):
                return value
            case Negative(nodes):
                return -self.total(nodes)
            case BinaryOperation(operator, left, right):
                return _compute(operator, self.total(left), self.total(right))
            case Function(name, nodes):
                values = [self.total(argument) for argument in nodes]
                if name == "abs":
                    if len(values) != 1:
                        raise BadExpression("abs needs exactly one value")
                    return abs(values[0])
                return min(values) if name == "min" else max(values)
            case Group(nodes, modifiers, label):
                dice = [Die(self.total(argument)) for argument in nodes]
                return self._settle(f"{{{len(nodes)}}}", dice, modifiers, label)
            case Dice(count, sides, modifiers, label):
                return self._dice(self.total(count), None if sides == "F" else self.total(sides), modifiers, label)

    def _dice(self, count: int, sides: int | None, modifiers: tuple[Modifier, ...], label: str) -> int:
        if not 0 <= count <= MOST_DICE:
            raise BadExpression(f"cannot roll {count} dice: the number must be 0 to {MOST_DICE:,}")
        if sides is not None and not 1 <= sides <= MOST_SIDES:
            raise BadExpression(f"a die cannot have {sides} sides: the number must be 1 to {MOST_SIDES:,}")
        low, high = (-1, 1) if sides is None else (1, sides)
        dice = [Die(self._roll(low, high)) for _ in range(count)]
        for modifier in modifiers:
            if isinstance(modifier, Reroll):
                self._reroll(dice, modifier, low, high)
            elif isinstance(modifier, Explode):
                self._explode(dice, modifier, low, high)
            elif isinstance(modifier, Limit):
                for die in dice:
                    die.value = (
                        max(die.value, modifier.number) if modifier.smallest else min(die.value, modifier.number)
                    )
        return self._settle(f"{count}d{'F' if sides is None else sides}", dice, modifiers, label)

    def _settle(self, notation: str, dice: list[Die], modifiers: tuple[Modifier, ...], label: str) -> int:
        """Drop and count dice, record the throw, and return its total."""
        count_modifiers = [modifier for modifier in modifiers if isinstance(modifier, Count)]
        for modifier in modifiers:
            if isinstance(modifier, Select):
                _select(dice, modifier)
        counted_dice = [die for die in dice if not die.dropped]
        if count_modifiers:
            for die in counted_dice:
                die.net_successes = sum(
                    (1 if each.success else -1) for each in count_modifiers if each.compare.holds(die.value)
                )
            total = sum(die.net_successes or 0 for die in counted_dice)
        else:
            total = sum(die.value for die in counted_dice)
        self.throws.append(Throw(notation, dice, total, label, bool(count_modifiers)))
        return total

    def _roll(self, low: int, high: int) -> int:
        self.dice_count += 1
        if self.dice_count > MOST_DICE:
            raise BadExpression(
                f"the expression rolls more than {MOST_DICE:,} dice, including exploded and rerolled dice"
            )
        return self.random.randint(low, high)

    def _reroll(self, dice: list[Die], modifier: Reroll, low: int, high: int) -> None:
        if not modifier.at_most_once:
            _check_termination(modifier.compare, low, high, "is rerolled")
        for die in dice:
            while modifier.compare.holds(die.value):
                die.value = self._roll(low, high)
                if modifier.at_most_once:
                    break

    def _explode(self, dice: list[Die], modifier: Explode, low: int, high: int) -> None:
        condition = modifier.compare or Compare("=", high)
        _check_termination(condition, low, high, "explodes")
        for die in list(dice):
            position = dice.index(die) + 1
            value, last_die = die.value, die
            while condition.holds(value):
                value = self._roll(low, high)
                last_die.exploded = True
                if modifier.kind == "!!":
                    die.value += value
                else:
                    last_die = Die(value - 1 if modifier.kind == "!p" else value)
                    dice.insert(position, last_die)
                    position += 1


def _check_termination(compare: Compare, low: int, high: int, action: str) -> None:
    """Raises BadExpression if every face of a die matches, so that rolling would not terminate."""
    if compare.holds(low) and compare.holds(high) and (compare.operator != "=" or low == high):
        raise BadExpression(f"each face of this die {action} ({compare.operator}{compare.number}), which never ends")


def _select(dice: list[Die], modifier: Select) -> None:
    sorted_dice = sorted(
        (die for die in dice if not die.dropped), key=lambda die: die.value, reverse=modifier.highest
    )  # stable: of equal dice, the earlier is kept or dropped first
    dropped_dice = sorted_dice[modifier.number :] if modifier.keep else sorted_dice[: modifier.number]
    for die in dropped_dice:
        die.dropped = True


def _compute(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise BadExpression("the expression divides by zero")
    return left // right if operator == "/" else left % right
