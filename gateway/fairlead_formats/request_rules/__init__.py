"""Rules about requests that the APIs of model providers reject, and the errors that they answer with.

Pure package. Each family has its rules in its folder of `providers`, one row for each. The scripted providers answer
with these errors, and a page of the documentation shows them. Messages have the form of the provider's messages, in our
words; status, type, code and param are the provider's own.
"""
