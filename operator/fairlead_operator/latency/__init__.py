"""How fast each tool is, and which tiers it may therefore be offered in: samples in, decisions and their reasons out.

Everything here decides without waiting: samples are handed in, the clock is a parameter. What collects samples, probes
tools and publishes the state documents stands beside it and calls `tool_record.ToolRecord`.
"""
