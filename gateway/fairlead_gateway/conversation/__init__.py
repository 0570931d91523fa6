"""Which latency tier the next answer of a conversation should have, from what is being said.

Pure: text, circumstances and a state go in, a choice and a state come out. `rest.tiers` serves it; programs may call
`choose.choose` themselves.
"""
