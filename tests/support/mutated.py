"""Plugin of pytest (`-p mutated`) that loads the mutant which FAIRLEAD_MUTANT describes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Final

from changed_modules import ChangedModuleFinder
from mutants import Mutant

VARIABLE: Final = "FAIRLEAD_MUTANT"


def describe(module: str, mutant: Mutant) -> str:
    """Value of the variable."""
    return json.dumps({"module": module, "mutant": asdict(mutant)})


if description := os.environ.get(VARIABLE):
    parsed = json.loads(description)
    sys.meta_path.insert(0, ChangedModuleFinder(parsed["module"], Mutant(**parsed["mutant"]).apply))
