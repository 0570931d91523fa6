"""YAML parser with Kubernetes' semantics, which records the line of every member.

Timestamps stay strings, a repeated key is an error, and the documents of a file are parsed independently: a broken
document does not affect the others. This module has no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

_SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)


class _Loader(yaml.SafeLoader):
    """SafeLoader without timestamps, because JSON has no timestamps."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - declared so by the base class
        first: [entry for entry in resolvers if entry[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True)
class BadDocument:
    """A document that is not valid YAML."""

    line: int
    message: str


@dataclass(frozen=True)
class Document:
    """One document: its content, and the line of every member."""

    content: Any
    line: int
    """Line of the document's first member, from 1."""
    _node: yaml.Node
    _offset: int

    def line_of(self, path: Sequence[str | int]) -> int:
        """Line of the member at `path`, or of the closest existing member around it."""
        node, line = self._node, self.line
        for step in path:
            member = _member(node, step)
            if member is None:
                break
            mark, node = member
            line = mark + self._offset
        return line


def documents(text: str) -> Iterator[Document | BadDocument]:
    """The documents of a file, without empty documents."""
    starts = [0, *(match.end() for match in _SEPARATOR.finditer(text))]
    ends = [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    for start, end in zip(starts, ends, strict=True):
        part = _parse(text[start:end], offset=text.count("\n", 0, start) + 1)
        if part is not None:
            yield part


def _parse(text: str, offset: int) -> Document | BadDocument | None:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        twice = _duplicate(node)
        if twice is not None:
            return BadDocument(twice.start_mark.line + offset, f"the key {twice.value} is repeated")
        content = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return BadDocument((mark.line if mark else 0) + offset, f"not valid YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + offset
        return BadDocument(line, f"not valid YAML: the character U+{error.character:04X} is not allowed")
    except (RecursionError, ValueError) as error:
        return BadDocument(offset, f"cannot be read: {error}")
    return Document(content, node.start_mark.line + offset, node, offset)


def _member(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line, item
    return None


def _duplicate(root: yaml.Node) -> yaml.ScalarNode | None:
    """A key that occurs twice in its mapping; None if there is no such key."""
    pending, visited = [root], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys = set[str]()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if key.value in keys:
                        return key
                    keys.add(key.value)
                pending.append(value)
    return None
