"""Custom tools: Python functions that run inside the gateway and are published as the server `local`.

`load` imports the modules of the tools' authors, and `upstream` passes calls to `fairlead_tools.handlers`. Custom tools
are listed, selected, limited and measured by the same code as tools of other servers.
"""
