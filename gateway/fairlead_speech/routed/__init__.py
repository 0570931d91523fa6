"""Routed OpenAI Realtime sessions: a cascaded engine answers the turns in slow tiers, the provider answers all other
turns."""
