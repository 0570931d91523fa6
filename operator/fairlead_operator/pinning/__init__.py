"""Definition pinning: `decide` says what of a server's listing is in force, `definitions` keeps it in a document;
`scan` looks through what servers list, pinned or not.

Used by the reconciler, for servers with `pin: true`; README.md has the rules for people.
"""
