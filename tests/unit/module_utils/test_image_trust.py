"""Whose certificates an image trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox._shared._errors import DeclarationError
from agentbox._shared._trust import read_bundle

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"


def bundle(folder: Path, name: str, content: str = "") -> str:
    path = folder / name
    path.write_text(content or CERTIFICATE.format(name), encoding="utf-8")
    return str(path)


def test_option_then_variables_then_system(tmp_path: Path) -> None:
    option, first, second, system = (bundle(tmp_path, name) for name in ("option", "first", "second", "system"))
    environ = {"SSL_CERT_FILE": first, "CURL_CA_BUNDLE": second}
    assert "option" in read_bundle(option, environ, [system])
    assert "first" in read_bundle(None, environ, [system])
    assert "second" in read_bundle(None, {"CURL_CA_BUNDLE": second}, [system])
    assert "system" in read_bundle(None, {"SSL_CERT_FILE": ""}, ["/nonexistent", system])
    assert read_bundle(None, {}, ["/nonexistent"]) == ""


def test_only_certificates_are_taken(tmp_path: Path) -> None:
    both = f"Some CA\n{CERTIFICATE.format('one')}{KEY}{CERTIFICATE.format('two')}"
    expected = CERTIFICATE.format("one") + CERTIFICATE.format("two")
    assert read_bundle(bundle(tmp_path, "both", both), {}) == expected


def test_a_bundle_that_cannot_be_used_is_named_with_its_origin(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"^SSL_CERT_FILE: cannot read the certificates in /nonexistent"):
        read_bundle(None, {"SSL_CERT_FILE": "/nonexistent"})
    with pytest.raises(DeclarationError, match=r"^ca_file: .*/key holds no certificate"):
        read_bundle(bundle(tmp_path, "key", KEY), {})
