"""Discovery: lists the definitions of servers, and turns them into catalogs.

`connector` opens sessions, `listing` reads the lists, `catalog_build` builds a catalog from them (pure). `discoverer`
schedules discoveries and keeps the last result of each server; `list_change_streams` receives notifications about
changed lists, `loss_detection` notices the loss of servers.
"""
