"""A folder for each page: `page.py` has its `ENTRY` in the navigation and its `router`, beside it are its templates."""
