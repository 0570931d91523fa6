"""Pinning of definitions, for servers with `pin: true`; docs/configure/pinning.md has the rules.

`pin_decision` decides which definitions are in force, `definitions` stores them in a document, and `cleanness` makes
the condition about suspicious texts, for all servers.
"""
