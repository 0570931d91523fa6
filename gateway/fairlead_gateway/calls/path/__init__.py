"""The path of a call from the request to the recorded answer: `dispatch` finds its route, `call` runs it."""
