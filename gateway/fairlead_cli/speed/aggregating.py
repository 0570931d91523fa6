"""Aggregate files of `fairlead telemetry`: requested from a gateway, read, filtered and written."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure
from fairlead_cli.rest import ManagementClient
from fairlead_gateway.aggregates.file import Aggregates, BadFile, decode, encode, merge
from fairlead_rest.resources.scores import badge


def fetch(gateway: Destination) -> Aggregates:
    """Aggregates of a gateway. Raises Failure, also if the gateway does not collect them."""
    client = ManagementClient.of(gateway)
    try:
        return decode(json.dumps(client.get("/v1/aggregates")).encode())
    except BadFile as error:
        raise Failure(f"{gateway.url} answered with {error}", code=FAILED) from error


def read(files: Sequence[Path]) -> Aggregates:
    """Merge all files. Raises Failure with the name of an invalid file."""
    contents = []
    for file in files:
        try:
            contents.append(decode(file.read_bytes()))
        except (OSError, BadFile) as error:
            raise Failure(f"{file}: {error}", code=USAGE_ERROR) from error
    try:
        return merge(contents)
    except BadFile as error:
        raise Failure(str(error), code=USAGE_ERROR) from error


def write(file: Path, content: Aggregates) -> None:
    """Write a new file. Raises Failure if the file exists or cannot be written."""
    try:
        with file.open("xb") as stream:
            stream.write(encode(content))
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error}", code=USAGE_ERROR) from error


def select_servers(content: Aggregates, servers: Collection[str]) -> Aggregates:
    """The aggregates of the named servers; of all servers if none is named."""
    lines = tuple(line for line in content.tools if not servers or line.server in servers)
    return msgspec.structs.replace(content, tools=lines)


def to_builtins(content: Aggregates) -> Any:
    """The aggregates in the file's format."""
    return msgspec.to_builtins(content)


def rows(content: Aggregates) -> Iterator[tuple[str, ...]]:
    """A table row for each line of the aggregates."""
    for line in content.tools:
        median, slow = line.quantile_ms(0.5), line.quantile_ms(0.95)
        if median is not None and slow is not None:
            columns = (line.server, line.version, line.tool, line.environment, str(line.calls))
            yield *columns, f"{median:.0f} ms", f"{slow:.0f} ms", badge(median)
