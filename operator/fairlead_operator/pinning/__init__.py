"""Definition pinning: `decide` says what of a server's listing is in force, `keeper` remembers it in the documents.

Used by the reconciler, for servers with `pin: true`; README.md has the rules for people.
"""
