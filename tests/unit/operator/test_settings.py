"""Settings from the environment."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_operator.settings import Settings


def test_every_setting_comes_from_its_variable_and_the_command_line_wins() -> None:
    environ = {
        "FAIRLEAD_NAMESPACE": "tools",
        "FAIRLEAD_METRICS_PORT": "0",
        "FAIRLEAD_LEASE_SECONDS": "7.5",
        "FAIRLEAD_PREFIX_STYLE": "namespace-name",
        "FAIRLEAD_LOG_FORMAT": "",
    }
    settings = Settings.from_env(environ, metrics_port=9000, kubeconfig=None)
    assert (settings.release.namespace, settings.metrics.port, settings.lease.seconds) == ("tools", 9000, 7.5)
    assert (settings.publish.prefix_style, settings.log.format) == ("namespace-name", "text")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WORKERS", "many", "FAIRLEAD_WORKERS is 'many'; it takes a whole number"),
        ("SWEEP_SECONDS", "x", "FAIRLEAD_SWEEP_SECONDS is 'x'; it takes a number"),
        ("PREFIX_STYLE", "both", "FAIRLEAD_PREFIX_STYLE is 'both'; it takes name or namespace-name"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(name: str, value: str, words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        Settings.from_env({f"FAIRLEAD_{name}": value})


def test_settings_outside_a_pod_have_a_namespace_and_a_name_for_each_process() -> None:
    settings = Settings.from_env({})
    assert settings.release.release_namespace
    assert settings.lease.replica
    assert Settings.of(namespace="a", identity="b").release.release_namespace == "a"
    assert Settings.of(identity="b").lease.replica == "b"


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "0.0.0.0"),
        ({"pod_ips": "10.244.0.7"}, "0.0.0.0"),
        ({"pod_ips": "10.244.0.7,fd00:10:244::7"}, "::"),
        ({"pod_ips": "fd00:10:244::7"}, "::"),
        ({"pod_ips": "fd00:10:244::7", "metrics_host": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_the_address_of_the_metrics_follows_from_those_of_the_pod(settings: dict[str, Any], address: str) -> None:
    assert Settings.of(**settings).metrics.address == address
