"""What tools and messages cost in tokens, which model holds them, and what has to go where none does.

Pure package: no network, no framework; the only files read are the ranks and the model windows that ship with it. Used
by the REST plane, the command line and the Python API, never by the path of an MCP call.
"""
