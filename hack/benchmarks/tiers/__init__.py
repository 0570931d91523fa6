"""Latency tiers: the shipped rule on traces of misbehaving tools, simulated and live, and the cost of choosing a
tier.
"""
