"""The path of a call from the client's request to the recorded answer: `dispatch` finds the route, `call` runs it."""
