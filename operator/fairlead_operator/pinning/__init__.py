"""Pinning of definitions, for servers with `pin: true`. The rules are in docs/configure/pinning.md.

`pin_decision` decides which definitions are in force, and `definitions` stores them in a document. `cleanness`
determines the condition about suspicious texts, also for servers that are not pinned.
"""
