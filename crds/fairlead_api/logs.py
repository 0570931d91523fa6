"""Format of the log lines of operator and gateway: text for people, or one JSON object per line for log collectors.
Configured once, in `__main__` of either.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TRACE_ID: Final = "trace_id"
"""Attribute of a record that belongs to a trace: its id, in hexadecimal digits."""
SPAN_ID: Final = "span_id"
"""Attribute of such a record: id of the span."""


class JsonFormatter(logging.Formatter):
    """One object per record: time, level, logger, message, and its trace and traceback where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in (TRACE_ID, SPAN_ID):
            if value := getattr(record, name, ""):
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(log_format: str, level: str) -> None:
    """Send everything to standard error. Raises ValueError for a level that does not exist."""
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
