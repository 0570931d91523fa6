"""Custom tools: Python functions that the gateway serves as tools of the server `local`.

`tools` registers functions and derives their definitions; `calls` runs them in the event loop or in a thread.
"""
