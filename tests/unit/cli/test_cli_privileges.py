from __future__ import annotations

from agentbox.cli import privileges


def test_root_gets_options_network_settings_and_the_declared_secrets_and_nothing_else() -> None:
    environ = dict.fromkeys(
        ["AGENTBOX_MEMORY", "WORKSPACE", "https_proxy", "SSL_CERT_FILE", "KEY", "OTHER", "LD_PRELOAD", "PATH"], "x"
    )
    assert privileges.carried(environ, ["KEY", "UNSET"]) == [
        "AGENTBOX_MEMORY",
        "KEY",
        "SSL_CERT_FILE",
        "WORKSPACE",
        "https_proxy",
    ]
