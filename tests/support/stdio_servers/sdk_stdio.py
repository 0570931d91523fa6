"""The SDK's server with the tools of `sdk_tools`, over stdio."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sdk_tools import make_server

if __name__ == "__main__":
    make_server().run()
