"""Dialogs of the screen of `fairlead top`, as Textual widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

HELP: Final = (
    "fairlead top",
    "",
    "  c e l n   order: calls, errors, latency (p95), name",
    "  /         only names with these letters, or a state such as failed",
    "  escape    remove the filter",
    "  space     pause or continue",
    "  tab       from servers to tools, and back",
    "  enter     why a server is not ready, why a tier hides a tool",
    "  q         quit",
    "",
    (
        "Calls of all callers are counted, for servers and tools that policies show you; rates are over the last "
        "minute. p50 and p95 are of the last 100 successful calls; for a server, those of its slowest tool. - stands "
        "for an unknown value."
    ),
)


class TextDialog(ModalScreen[None]):
    """A scrollable dialog with lines of text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark", "dismiss_dialog", "Close")]
    DEFAULT_CSS = """
    TextDialog { align: center middle; }
    TextDialog > VerticalScroll {
        width: 90; max-width: 96%; height: auto; max-height: 90%; border: solid $primary; padding: 0 1;
    }
    TextDialog Static { width: 100%; height: auto; }
    """

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text)

    @property
    def text(self) -> str:
        """The lines as they are displayed."""
        return self._text.plain

    def show(self, lines: Sequence[str]) -> None:
        """Replace the lines."""
        self._lines = tuple(lines)
        self.query_one(Static).update(self._text)

    def action_dismiss_dialog(self) -> None:
        self.dismiss()

    @property
    def _text(self) -> Text:
        return Text("\n".join((*self._lines, "", "escape closes")))
