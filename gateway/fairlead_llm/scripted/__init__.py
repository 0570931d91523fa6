"""A model that says what a script says, behind the APIs of models: for trying the endpoints without a provider, and
for tests.
"""

from fairlead_llm.scripted.model import ScriptedModel, scripted_response
from fairlead_llm.scripted.turns import ScriptedCall, ScriptedTurn

__all__ = ["ScriptedCall", "ScriptedModel", "ScriptedTurn", "scripted_response"]
