"""Log format of operator and gateway: text for people, or one JSON object per line for log collectors.

The `__main__` module of each process configures the format once.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TRACE_ID: Final = "trace_id"
"""Attribute of a log record with the id of its trace, in hexadecimal digits."""
SPAN_ID: Final = "span_id"
"""Attribute of a log record with the id of its span, in hexadecimal digits."""


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object: time, level, logger, message, and trace and traceback if it has them."""

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
    """Send all log lines to standard error. Raises ValueError for an unknown level."""
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
