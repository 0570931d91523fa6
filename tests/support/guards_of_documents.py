"""Guards of OpenAPI documents that are made to harm: see `guards`."""

from __future__ import annotations

from product_guard import Guard

_UNIT = "tests/unit/openapi"
DOCUMENTS = (
    Guard(
        "an OpenAPI document that takes the memory of the machine",
        "fairlead_mcp.limited_process",
        (("module, str(limits.memory)", "module, str(2**40)"),),
        "tests/component/openapi/test_worker.py::test_a_worker_that_needs_too_much_memory_is_ended",
        "DID NOT RAISE",
    ),
    Guard(
        "a credential of an API as an argument, which a model would have to know",
        "fairlead_openapi.compiling.parameters",
        (("if is_credential(location, name, self._schemes):", "if False:"),),
        f"{_UNIT}/test_compiled_documents.py::test_credentials_never_become_arguments_and_requirements_are_recorded",
        "x-key",
    ),
    Guard(
        "a header of requests to an API, inside of a media type",
        "fairlead_openapi.compiling.answers",
        (('accept = accept if is_header_value(accept) else "*/*"', "pass"),),
        f"{_UNIT}/test_answers.py::test_a_media_type_with_a_line_break_is_not_sent",
        "X-Own: 1",
    ),
    Guard(
        "an object of Python, made by a tag of a YAML document",
        "fairlead_openapi.compiling.reading",
        (("class _OpenApiLoader(yaml.CSafeLoader):", "class _OpenApiLoader(yaml.CUnsafeLoader):"),),
        f"{_UNIT}/test_reading.py::test_a_tag_that_would_make_an_object_of_python_is_refused",
        "DID NOT RAISE",
    ),
)
"""Documents that cost more than themselves."""
