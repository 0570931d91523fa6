"""Server `rules-lookup`: `search_rules(query, system)` and `get_rule(id)`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from fairlead_servers.definition import ServerSettings, SettingError, ToolServer
from fairlead_servers.fulltext import cut
from fairlead_servers.rules_lookup.files import slug
from fairlead_servers.rules_lookup.index import RuleIndex
from fairlead_servers.tool import READS, LatencyDeclaration, ToolError, tool
from fairlead_tools.version import VERSION

OWN_RULES: Final = Path(__file__).parent / "rules"
MOST_EXCERPT: Final = 300
MOST_TEXT: Final = 8_000


class RulesSettings(ServerSettings):
    """Settings of rules-lookup."""

    rules: Annotated[
        Path | None,
        Field(description="Folder with a folder per game system, in addition to `rules` in the data folder."),
    ] = None
    own: Annotated[bool, Field(description="Whether to include the built-in rules.")] = True


class RuleFound(BaseModel):
    """Rule that matches a search, with the beginning of its text."""

    id: str
    system: str
    title: str
    excerpt: str


class RulesFound(BaseModel):
    """Matching rules, best match first."""

    rules: list[RuleFound]


class RuleText(BaseModel):
    """Complete text of a rule."""

    id: str
    system: str
    title: str
    text: str


class RulesLookup:
    """Tools of the server."""

    def __init__(self, index: RuleIndex) -> None:
        self._index = index

    def search_rules(
        self,
        query: Annotated[str, Field(description="What to look for, in plain words", min_length=1, max_length=500)],
        system: Annotated[
            str, Field(description="Game system to search; by default all game systems", max_length=100)
        ] = "",
        limit: Annotated[int, Field(description="Maximum number of results", ge=1, le=20)] = 5,
    ) -> RulesFound:
        """Find rules of a game by words. get_rule returns their complete text."""
        self._index.refresh()
        system_slug = slug(system) if system.strip() else ""
        systems = self._index.systems()
        if system_slug and system_slug not in systems:
            raise ToolError(
                f"there are no rules for {cut(system, 60)!r}; systems: {', '.join(systems[:30]) or 'none'}."
            )
        return RulesFound(
            rules=[
                RuleFound(id=rule.id, system=rule.system, title=rule.title, excerpt=cut(rule.text, MOST_EXCERPT))
                for rule in self._index.search(query, system_slug, limit)
            ]
        )

    def get_rule(
        self,
        id: Annotated[str, Field(description="Id of a rule, from search_rules", min_length=1, max_length=200)],  # noqa: A002 - the argument's name
    ) -> RuleText:
        """Get the complete text of a rule."""
        self._index.refresh()
        rule = self._index.rules.get(id)
        if rule is None:
            system, _, name = id.rpartition("/")
            system = system if system in self._index.systems() else ""
            similar_ids = (
                [each.id for each in self._index.search(name, system, 3)] if any(map(str.isalnum, name)) else []
            )
            hint = f"; did you mean {' or '.join(similar_ids)}?" if similar_ids else "; search_rules returns ids."
            raise ToolError(f"rule {cut(id, 60)!r} does not exist{hint}")
        return RuleText(id=rule.id, system=rule.system, title=rule.title, text=cut(rule.text, MOST_TEXT))


def open_server(folder: Path, settings: RulesSettings) -> MCPServer[Any]:
    """Open the server on the built-in rules, the rules of the data folder and the rules of the setting `rules`. Raises
    SettingError."""
    if settings.rules is not None and not settings.rules.is_dir():
        raise SettingError(
            f"rules is {settings.rules}, which is not a folder; give a folder that has one folder per system"
        )
    folders = (
        *((OWN_RULES,) if settings.own else ()),
        folder / "rules",
        *((settings.rules,) if settings.rules else ()),
    )
    lookup = RulesLookup(RuleIndex(*folders))
    return MCPServer(
        "rules-lookup",
        instructions="Rules of games. Quote rules verbatim; if no rule is found, say so.",
        tools=[
            tool(lookup.search_rules, READS, "Search rules", LatencyDeclaration(300, 5000, "standard")),
            tool(lookup.get_rule, READS, "Rule in full", LatencyDeclaration(300, 5000, "standard")),
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(RulesSettings, open_server)
