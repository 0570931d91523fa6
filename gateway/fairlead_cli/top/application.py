"""Screen of `fairlead top`, a Textual application."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import ClassVar, Final
from urllib.parse import quote

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from fairlead_cli.failure import Failure
from fairlead_cli.output import printable
from fairlead_cli.rest import ManagementClient
from fairlead_cli.top.columns import SERVER_COLUMNS, TOOL_COLUMNS, per_minute
from fairlead_cli.top.details import file_notice, server_details, tool_details
from fairlead_cli.top.dialogs import HELP, TextDialog
from fairlead_cli.top.feed import RepeatedRequest, request_once
from fairlead_cli.top.reading import GatewayReading, read
from fairlead_cli.top.rows import WatchedServerRow, WatchedToolRow, not_ready_total, rows_of
from fairlead_cli.top.sort_key import SortKey
from fairlead_cli.top.tables import WatchedTable
from fairlead_tools.call_rates import CallRates

THEME: Final = "ansi-dark"
"""Theme that uses the terminal's own colours, dark or light."""


class ReadingArrived(Message):
    """Message with a new reading, or with the failure to get a reading."""

    def __init__(self, outcome: GatewayReading | Failure) -> None:
        super().__init__()
        self.outcome = outcome


class DetailsArrived(Message):
    """Message for an open dialog, with the explanation of a tool or the failure to get it."""

    def __init__(self, dialog: TextDialog, outcome: list[str] | Failure) -> None:
        super().__init__()
        self.dialog = dialog
        self.outcome = outcome


class TopApp(App[None]):
    """Two tables, of servers and of tools, which are updated with each reading."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "fairlead top"
    CSS = """
    #summary, #notice { height: auto; padding: 0 1; }
    #notice { color: red; text-style: bold; display: none; }
    #servers { height: auto; max-height: 45%; min-height: 4; }
    #tools { height: 1fr; min-height: 4; }
    WatchedTable { border-top: solid gray; border-title-align: left; }
    WatchedTable:focus { border-top: heavy gray; border-title-style: bold; }
    WatchedTable > .datatable--header { background: ansi_default; color: ansi_default; text-style: bold; }
    #filter { display: none; border: none; height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "arrange('calls')", "Calls"),
        Binding("e", "arrange('errors')", "Errors"),
        Binding("l", "arrange('latency')", "Latency"),
        Binding("n", "arrange('name')", "Name"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "unfilter", "All", show=False),
        Binding("space", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self, client: ManagementClient, url: str, key: SortKey, interval: float, first: GatewayReading
    ) -> None:
        super().__init__()
        self._client = client
        self._url = url
        self._key = key
        self._reading = first
        self._filter_text = ""
        """Text of the filter."""
        self._is_paused = False
        self._failure: Failure | None = None
        """Failure of the last request; None if it succeeded."""
        self._rates = CallRates()
        self._rows = rows_of(first, self._rates.take(first))
        self._interval = interval
        self._feed = RepeatedRequest(
            lambda: read(client), interval, lambda outcome: self.post_message(ReadingArrived(outcome))
        )

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield Static(id="notice")
        yield WatchedTable("servers", SERVER_COLUMNS)
        yield WatchedTable("tools", TOOL_COLUMNS)
        yield Input(id="filter", placeholder="letters of a name, or a state")
        yield Footer()

    def on_mount(self) -> None:
        self.theme = THEME
        self._draw()
        self._tools.focus()
        self._feed.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)  # restores the terminal

    def on_unmount(self) -> None:
        self._feed.end()

    def on_reading_arrived(self, message: ReadingArrived) -> None:
        if isinstance(message.outcome, Failure):
            self._failure = message.outcome
        else:
            self._failure = None
            self._reading = message.outcome
            self._rows = rows_of(message.outcome, self._rates.take(message.outcome))
        self._draw()

    def on_details_arrived(self, message: DetailsArrived) -> None:
        if message.dialog.is_attached:
            lines = [str(message.outcome)] if isinstance(message.outcome, Failure) else message.outcome
            message.dialog.show(lines)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        row = event.data_table.current if isinstance(event.data_table, WatchedTable) else None
        if isinstance(row, WatchedServerRow):
            self.push_screen(TextDialog(server_details(row, self._reading.documents.get(row.name, {}))))
        elif isinstance(row, WatchedToolRow):
            self._explain(row)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._draw()

    def on_input_submitted(self) -> None:
        self._filter.display = False
        self._tools.focus()

    def action_arrange(self, key: str) -> None:
        self._key = SortKey(key)
        self._draw()

    def action_filter(self) -> None:
        self._filter.display = True
        self._filter.focus()

    def action_unfilter(self) -> None:
        self._filter.value = ""
        self.on_input_submitted()

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._feed.pause(self._is_paused)
        self._draw()

    def action_help(self) -> None:
        self.push_screen(TextDialog(HELP))

    def _explain(self, row: WatchedToolRow) -> None:
        dialog = TextDialog([row.name, "", "loading …"])
        self.push_screen(dialog)
        path = f"/v1/tools/{quote(row.name, safe='')}/explain"
        request_once(
            lambda: tool_details(row, self._client.get(path)),
            lambda outcome: self.post_message(DetailsArrived(dialog, outcome)),
        )

    def _draw(self) -> None:
        rows = self._rows.arrange(self._key, self._filter_text)
        self.query_one("#summary", Static).update(self._summary())
        notice, text = self.query_one("#notice", Static), self._notice()
        notice.display = bool(text)
        notice.update(Text(text))
        self._servers.show(rows.servers)
        self._tools.show(rows.tools)

    def _notice(self) -> str:
        if self._failure is None:
            return file_notice(self._reading.file_problems)
        age = time.monotonic() - self._reading.at
        return f"Values are {age:,.0f} s old: {printable(str(self._failure))} Trying again."

    def _summary(self) -> Text:
        total, not_ready = self._rows.total, not_ready_total(self._rows.servers)
        options = [f"by {self._key}", f"every {self._interval:g} s"]
        options += [f"with {printable(self._filter_text)!r}"] if self._filter_text else []
        options += ["PAUSED"] if self._is_paused else []
        counts = [
            f"{per_minute(total.calls_per_minute)} calls/min",
            f"{per_minute(total.errors_per_minute)} errors/min",
        ]
        counts += [f"{not_ready} of {len(self._rows.servers)} servers not ready"] if not_ready else []
        counts += [f"{self._rates.replicas} replicas"] if self._rates.replicas > 1 else []
        line = Text(printable(self._url), style="bold")
        line.append("  " + " · ".join(options), style="not bold")
        return line.append("\n" + " · ".join(counts), style="not bold")

    @property
    def _servers(self) -> WatchedTable[WatchedServerRow]:
        return self.query_one("#servers", WatchedTable)

    @property
    def _tools(self) -> WatchedTable[WatchedToolRow]:
        return self.query_one("#tools", WatchedTable)

    @property
    def _filter(self) -> Input:
        return self.query_one("#filter", Input)
