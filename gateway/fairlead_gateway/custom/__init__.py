"""Tools written in Python: functions that run inside the gateway and are published as the server `local`.

`load` finds authors' modules, `upstream` passes calls to `fairlead_tools.handlers`. From there on they are tools like
any other: listed, selected, limited and measured by the same code.
"""
