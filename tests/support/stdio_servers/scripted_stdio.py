"""`scriptedserver` over stdio. Its only argument is the JSON of the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scriptedserver import responder

respond = responder(json.loads(sys.argv[1]))
for line in sys.stdin.buffer:
    response = respond(line)
    if response is not None:
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()
