"""The path of a tool call: `dispatch` runs it, `translate` crosses the eras, `refusals` names what can go wrong."""
