"""Server `dice-roller`: `roll(expression)` and `roll_table(table_name)`."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random, SystemRandom
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from fairlead_servers.definition import ServerSettings, SettingError, ToolServer
from fairlead_servers.dice_roller.grammar import MOST_CHARACTERS, BadExpression, parse
from fairlead_servers.dice_roller.rolling import Roller, Throw
from fairlead_servers.dice_roller.tables import BadTable, TableFolder
from fairlead_servers.tool import LatencyDeclaration, ToolError, tool
from fairlead_tools.version import VERSION

OWN_TABLES: Final = Path(__file__).parent / "tables"
MAX_TABLE_DEPTH: Final = 4
"""Maximum depth of rolls on tables that entries of tables cause."""
MOST_INSERTS: Final = 50
"""Maximum number of further rolls, on tables or of dice, that the entries for one roll on a table may cause."""
ROLLS: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_INSERT: Final = re.compile(r"\[\[([^\[\]]{1,100})\]\]")


class DiceSettings(ServerSettings):
    """Settings of dice-roller."""

    tables: Annotated[
        Path | None,
        Field(description="Folder of tables, in addition to `tables` in the data folder and the built-in tables."),
    ] = None
    seed: Annotated[
        int | None, Field(description="Makes all rolls repeatable, for demonstrations. Without it they are random.")
    ] = None


class ThrowShown(BaseModel):
    """Dice that were rolled together."""

    notation: str
    dice: list[str]
    """Each die: `6!` exploded, `~2~` dropped, `5*` a success, `10**` two, `1-` a failure."""
    total: int
    label: str = ""


class Rolled(BaseModel):
    """Result of an expression."""

    expression: str
    total: int
    throws: list[ThrowShown]
    text: str


class TableRolled(BaseModel):
    """Result of a roll on a table."""

    table: str
    rolled: int
    sides: int
    text: str


class DiceRoller:
    """Tools of the server; `random` is the source of the rolls."""

    def __init__(self, random: Random, tables: TableFolder) -> None:
        self._random = random
        self._tables = tables

    async def roll(
        self,
        expression: Annotated[
            str,
            Field(
                description="Dice expression, for example 4d6kh3 + 2, 2d20kl1, 8d10>=8, 3d6!, d%",
                min_length=1,
                max_length=MOST_CHARACTERS,
            ),
        ],
    ) -> Rolled:
        """Roll dice. Supports sums and brackets, keep and drop (4d6kh3, 4d6dl1), exploding dice (3d6!, 3d6!!, 3d6!p),
        rerolls (2d6r1, 2d6ro<3), limits (4d6mi2), pools that count successes (8d10>=8f=1), Fate dice (4dF), groups
        ({2d6, d12}kh1), min, max, abs, and labels (2d6[fire]). Division rounds down.
        """
        roller = Roller(self._random)
        try:
            total = roller.total(parse(expression))
        except BadExpression as error:
            raise ToolError(f"{error}.") from error
        text = ", ".join(_throw_text(throw) for throw in roller.throws)
        return Rolled(
            expression=expression,
            total=total,
            throws=[
                ThrowShown(
                    notation=throw.notation,
                    dice=[die.text() for die in throw.dice],
                    total=throw.total,
                    label=throw.label,
                )
                for throw in roller.throws
            ],
            text=f"{expression} = {total}" + (f" ({text})" if text else ""),
        )

    def roll_table(
        self,
        table_name: Annotated[
            str, Field(description="Name of a table, for example weather", min_length=1, max_length=100)
        ],
    ) -> TableRolled:
        """Roll on a table, and resolve further rolls in its entry. The error for an unknown name lists all tables."""
        try:
            return self._roll_on(table_name, [MOST_INSERTS], 0)
        except (BadTable, BadExpression) as error:
            raise ToolError(f"{error}.") from error

    def _roll_on(self, name: str, inserts_left: list[int], depth: int) -> TableRolled:
        if depth > MAX_TABLE_DEPTH:
            raise BadTable(f"the entries of {name} refer to other tables more than {MAX_TABLE_DEPTH} levels deep")
        table = self._tables.read(name)
        sides = table.weight()
        number = self._random.randint(1, sides)

        def insert(match: re.Match[str]) -> str:
            inserts_left[0] -= 1
            if inserts_left[0] < 0:
                raise BadTable(f"the entries of {table.name} contain more than {MOST_INSERTS} rolls")
            insert_text = match[1].strip()
            if insert_text.startswith("@"):
                return self._roll_on(insert_text[1:], inserts_left, depth + 1).text
            return str(Roller(self._random).total(parse(insert_text)))

        text = _INSERT.sub(insert, table.entry(number).text)
        return TableRolled(table=table.name, rolled=number, sides=sides, text=text)


def _throw_text(throw: Throw) -> str:
    dice = ", ".join(die.text() for die in throw.dice)
    label = f" {throw.label}" if throw.label else ""
    return f"{throw.notation}{label} [{dice}]"


def open_server(folder: Path, settings: DiceSettings) -> MCPServer[Any]:
    """Open the server with the built-in tables, the tables of the data folder, and the tables of the setting `tables`.

    Raises SettingError.
    """
    if settings.tables is not None and not settings.tables.is_dir():
        raise SettingError(f"tables is {settings.tables}, which is not a folder; give a folder of tables")
    folders = (OWN_TABLES, folder / "tables", *((settings.tables,) if settings.tables else ()))
    dice = DiceRoller(SystemRandom() if settings.seed is None else Random(settings.seed), TableFolder(*folders))
    return MCPServer(
        "dice-roller",
        instructions="Rolls dice. Never make up a roll: call roll, and report its total as it is.",
        tools=[
            tool(dice.roll, ROLLS, "Roll dice", LatencyDeclaration(15, 2000, "fast")),
            tool(dice.roll_table, ROLLS, "Roll on a table", LatencyDeclaration(20, 2000, "fast")),
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(DiceSettings, open_server)
