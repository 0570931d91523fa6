"""The index of a namespace's tools: which definitions it reads, and when."""

from __future__ import annotations

import pytest
from msgspec import Raw

from fairlead_api.documents.rules import Policy, Rule
from fairlead_api.policies.index import IndexedServer, ToolIndex
from fairlead_api.slices import finish


class Tool:
    """A tool that records how often its definition is read."""

    categories: tuple[str, ...] = ()

    def __init__(self, name: str, *, reads: bool, tags: tuple[str, ...] = ()) -> None:
        self.name = name
        self.tags = tags
        self.looks = 0
        self._raw = b'{"annotations":{"readOnlyHint":%b}}' % (b"true" if reads else b"false")

    @property
    def definition(self) -> bytes | Raw:
        self.looks += 1
        return self._raw


def policy(*rules: Rule) -> Policy:
    return Policy(namespace="default", name="p", every=True, rules=rules)


def names(index: ToolIndex, rule: Rule) -> list[str]:
    return [name for _, name in index.select(index.matching_bits(rule), index.refs)]


def test_tags_and_annotations_are_read_when_rules_are_prepared_and_never_again() -> None:
    tools = [Tool("get", reads=True), Tool("put", reads=False)]
    index = ToolIndex([IndexedServer("web", tools, trusted=True)])
    readers = Rule(action="Allow", annotations={"readOnlyHint": True})
    finish(index.prepare_in_slices([policy(Rule(action="Allow", tools=("*",)))]))
    assert [tool.looks for tool in tools] == [0, 0]
    finish(index.prepare_in_slices([policy(readers)]))
    looks = [tool.looks for tool in tools]
    assert min(looks) > 0
    assert names(index, readers) == ["get"]
    finish(index.prepare_in_slices([policy(readers)]))
    assert names(index, readers) == ["get"]
    assert [tool.looks for tool in tools] == looks


def test_tools_stand_in_the_order_of_name_and_server_whatever_either_is() -> None:
    servers = [
        IndexedServer(server, [Tool(name, reads=True) for name in ("b", "a\0", "a\0b", "a")], trusted=True)
        for server in ("web", "a", "file")
    ]
    index = ToolIndex(servers)
    assert [(name, server) for server, name in index.refs] == sorted((name, server) for server, name in index.refs)
    assert all(index.refs[index.position(server, name) or 0] == (server, name) for server, name in index.refs)


@pytest.mark.parametrize("hint", ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
def test_each_annotation_counts_by_its_own_value(hint: str) -> None:
    tools = [Tool("yes", reads=False), Tool("no", reads=False)]
    for tool, value in zip(tools, (b"true", b"false"), strict=True):
        tool._raw = b'{"annotations":{"%b":%b}}' % (hint.encode(), value)
    index = ToolIndex([IndexedServer("web", tools, trusted=True)])
    rules = [Rule(action="Allow", annotations={hint: value}) for value in (True, False)]
    finish(index.prepare_in_slices([policy(*rules)]))
    assert [names(index, rule) for rule in rules] == [["yes"], ["no"]]


def test_a_rule_about_categories_matches_tools_of_one_of_them() -> None:
    tools = [Tool("get", reads=True), Tool("put", reads=True)]
    tools[0].categories = ("search",)
    rule = Rule(action="Allow", categories=("search", "other"))
    index = ToolIndex([IndexedServer("web", tools, trusted=True)])
    finish(index.prepare_in_slices([policy(rule)]))
    assert names(index, rule) == ["get"]
