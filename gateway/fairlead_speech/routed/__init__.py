"""Routed OpenAI Realtime sessions: a cascaded engine answers the turns of slow tiers, the provider all others."""
