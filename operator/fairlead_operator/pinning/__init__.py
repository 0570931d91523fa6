"""Definition pinning: `pin_decision` says which of a server's definitions are in force, `definitions` keeps them in a
document, `scan` searches the texts of all servers, pinned or not.

Pinning is for servers with `pin: true`; docs/configure/pinning.md has the rules for people.
"""
