"""Custom tools: Python functions that run inside the gateway and are published as the server `local`.

`load` imports the authors' modules, and `upstream` passes calls to `fairlead_tools.handlers`. The same code lists,
selects, limits and measures custom tools and tools of other servers.
"""
