"""Pages of the console, one package each: `page.py` has its `ENTRY` in the navigation and its `router`."""
