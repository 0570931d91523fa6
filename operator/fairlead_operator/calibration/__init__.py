"""Probes: calls that the operator makes itself, to know how fast a tool is before anybody needs it.

`minimal` makes arguments from a schema, `plan` says which tools may be probed at all, `schedule` when each is due; they
are pure. `prober` calls, over sessions of its own, while this replica leads.
"""
