"""Guards that keep one entry of a list from costing all the others: see `guards`."""

from __future__ import annotations

from product_guard import Guard

LISTS = (
    Guard(
        "an entry that clients refuse, and with it the lists of all servers",
        "fairlead_tools.definitions.forms",
        (("return _sentence(path, error)", 'return ""'),),
        "tests/unit/gateway/test_definition_forms.py::"
        "test_a_member_whose_meaning_is_not_clear_has_the_definition_refused",
        "assert",
    ),
    Guard(
        "an output schema that a client cannot compile, and with it the list of tools",
        "fairlead_tools.definitions.forms",
        (("else unusable_in_old_clients(schema)", 'else ""'),),
        "tests/unit/gateway/test_definition_forms.py::"
        "test_an_output_schema_that_older_clients_cannot_take_is_left_out_for_them_alone",
        "assert",
    ),
    Guard(
        "an entry that is nested too deeply to be read",
        "fairlead_mcp.deep_entries",
        (("return message if _LISTS.isdisjoint(result) else text", "return message"),),
        "tests/unit/mcp/test_deep_entries.py::"
        "test_a_list_with_an_entry_that_is_nested_too_deeply_keeps_its_other_entries",
        "assert",
    ),
)
