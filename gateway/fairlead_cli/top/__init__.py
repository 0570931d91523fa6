"""`fairlead top`: servers and tools of a gateway by calls, errors and latency.

`reading` asks the gateway, `rates`, `rows`, `columns` and `details` are pure, `printing` is for programs and pipes, and
`application` is the screen: the only module, with `dialogs` and `tables`, that imports Textual.
"""
