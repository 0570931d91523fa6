"""Tools written in Python: functions that run inside the gateway and are published as the server `local`.

`tool` is what an author writes, `tools` the collection that is published, `load` finds authors' modules, `upstream`
runs the calls. From there on they are tools like any other: listed, selected, limited and measured by the same code.
"""
