"""Checks of definitions that servers offer: validity for clients, differences from approved definitions, hidden
text.
"""
