"""Python functions as tools: what a function says of itself, and calls of it on the loop or in a thread.

`tools` takes functions in, `calls` runs them. The gateway serves them as the server `local`.
"""
