"""A server over stdio whose tools are in a file: listing_stdio.py FILE, with a JSON list of definitions.

It answers 2025-11-25, and every call with the text "went". The content of the file is sent unchanged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SERVER = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
RESULTS = {
    "initialize": json.dumps(SERVER),
    "tools/list": f'{{"tools":{Path(sys.argv[1]).read_text()}}}',
    "tools/call": '{"content":[{"type":"text","text":"went"}]}',
}

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" in message and method:
        answer = f'"result":{RESULTS[method]}' if method in RESULTS else '"error":{"code":-32601,"message":"no"}'
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{answer}}}\n')
        sys.stdout.flush()
