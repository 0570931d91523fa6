"""Asks servers what they offer, and turns the answers into catalogs.

`connector` opens sessions and `listing` reads them; `catalog_build` makes a catalog of what was read (pure);
`discoverer` decides when which server is asked, and keeps the last result of each; `listening` hears servers announce
changes, `idleconnections` notices when they go away.
"""
