"""`fairlead top`: calls, errors and latency of a gateway's servers and tools.

`reading` requests the data from the gateway; `rows`, `columns` and `details` do no I/O; `printing` prints for
programs and pipes; `application` is the screen, and imports Textual, as do `dialogs` and `tables`.
"""
