"""One call from its entry to the recorded answer: `dispatch` finds its route, `call` runs it."""
