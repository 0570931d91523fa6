"""Pinning of definitions, for servers with `pin: true`; docs/configure/pinning.md has the rules.

`pin_decision` decides which definitions are in force, and `definitions` stores them in a document. `cleanness` makes
the condition about suspicious texts, also for servers that are not pinned.
"""
