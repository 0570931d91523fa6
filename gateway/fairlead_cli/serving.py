"""`fairlead serve` lists or runs the tool servers that come with Fairlead; `fairlead ingest` fills their archive."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead_cli.failure import USAGE_ERROR, Failure, needs
from fairlead_cli.options import OutputOption
from fairlead_cli.output import Output, print_json, print_table, remark
from fairlead_cli.wording import with_advice
from fairlead_formats.names import suggest_name

if TYPE_CHECKING:
    from fairlead_servers.table import BundledServer


class Transport(StrEnum):
    """Values of `--transport`."""

    stdio = "stdio"
    http = "http"


def serve(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Server to run. Default: list the servers.", show_default=False)
    ] = None,
    transport: Annotated[
        Transport, typer.Option(help="stdio if the client starts the server, http if clients connect to it.")
    ] = Transport.stdio,
    host: Annotated[str, typer.Option(help="Address to listen on; :: or 0.0.0.0 allows other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of /mcp and /healthz.")] = 8080,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="FAIRLEAD_DATA",
            help="Folder for the server's data. Default: a folder in ~/.local/share/fairlead.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the server. May be given several times."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Run a tool server that comes with Fairlead, or list these servers.

    Every setting can also be given as an environment variable: `tables` of dice-roller as FAIRLEAD_DICE_ROLLER_TABLES.

    Examples:

        fairlead serve

        fairlead serve dice-roller

        fairlead serve dice-roller --transport http --port 8090 --data ~/campaign
    """
    from fairlead_servers.table import SERVERS

    if name is None:
        _list(output)
        return
    row = SERVERS.get(name)
    if row is None:
        similar_name = suggest_name(name, SERVERS)
        suggestion = "" if similar_name is None else f" Did you mean {similar_name}?"
        raise Failure(f"{name!r} is not a bundled server.{suggestion} Servers: {', '.join(SERVERS)}", code=USAGE_ERROR)
    with needs("servers"):
        from fairlead_servers.definition import SettingError, prepare_folder
        from fairlead_servers.serving import serve_http, serve_stdio
        from fairlead_servers.telemetry import export

    values = _pairs(settings or [])
    try:
        with needs("servers"):
            definition = row.definition()
        server = definition.make(prepare_folder(name, row.folder, data), name, os.environ, values)
    except SettingError as error:
        raise Failure(str(error), code=USAGE_ERROR) from error
    on_exit = export(os.environ, name)
    if transport is Transport.stdio:
        serve_stdio(server, on_exit)
    else:
        try:
            serve_http(server, host, port, on_exit)
        except OSError as error:
            from fairlead_mcp.addresses import authority

            address = authority(host, port)
            raise Failure(
                f"cannot listen on {address}: {error.strerror}. Choose another address with --host and --port"
            ) from error
    sys.stdout.flush()


def ingest(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="JSON lines, see docs/configure/servers/memory.md."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(envvar="FAIRLEAD_DATA", help="Data folder of the servers memory and session-manager."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Import sessions, turns, entities and facts into the archive of the servers memory and session-manager.

    The servers may be running, and find the new records at once. Each file is imported completely or not at all. A
    record replaces an earlier one with the same key.

    Example: fairlead ingest evening-12.jsonl --data ~/campaign
    """
    with needs("servers"):
        from fairlead_servers.archive.records import BadRecord
        from fairlead_servers.archive.store import Archive, ArchiveError
        from fairlead_servers.definition import SettingError, prepare_folder
        from fairlead_servers.table import SERVERS

    row, totals = SERVERS["memory"], dict.fromkeys(("session", "turn", "entity", "fact"), 0)
    try:
        archive = Archive(prepare_folder(row.name, row.folder, data))
        for file in files:
            for kind, count in archive.ingest(file).items():
                totals[kind] += count
    except (BadRecord, SettingError) as error:
        raise Failure(with_advice(str(error), "Nothing of this file was imported."), code=USAGE_ERROR) from error
    except ArchiveError as error:
        raise Failure(with_advice(str(error), "Nothing of this file was imported.")) from error
    if output is Output.json:
        print_json({"archive": str(archive.path), "records": totals})
    else:
        print_table(("RECORD", "IMPORTED"), [(kind, str(count)) for kind, count in totals.items()])


def _pairs(words: Sequence[str]) -> Mapping[str, str]:
    """Settings from `KEY=VALUE` words. Raises Failure."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise Failure(f"--set must be KEY=VALUE, not {word!r}", code=USAGE_ERROR)
        pairs[key.replace("-", "_")] = value
    return pairs


def _list(output: Output) -> None:
    """Print the servers, with their settings if the extra that runs them is installed."""
    from fairlead_servers.table import SERVERS

    try:
        with needs("servers"):
            settings = {name: _settings(row) for name, row in SERVERS.items()}
    except Failure as failure:
        settings = {}
        remark("serve", f"{failure}. Until then, servers cannot run and their settings are not listed")
    if output is Output.json:
        print_json(
            {
                "servers": [
                    {"name": name, "summary": row.summary, **({"settings": settings[name]} if settings else {})}
                    for name, row in SERVERS.items()
                ]
            }
        )
        return
    rows = [
        (name, row.summary, ", ".join(setting["name"] for setting in settings.get(name, ())))
        for name, row in SERVERS.items()
    ]
    print_table(("SERVER", "WHAT IT DOES", "SETTINGS"), rows)


def _settings(row: BundledServer) -> list[dict[str, Any]]:
    from fairlead_servers.definition import variable

    return [
        {
            "name": name,
            "variable": variable(row.name, name),
            "description": field.description or "",
            "default": None if field.default is None else str(field.default),
        }
        for name, field in row.definition().settings.model_fields.items()
    ]
