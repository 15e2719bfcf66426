"""The certificate authorities that this machine trusts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ._errors import DeclarationError

# Tools agree on no single name; the first variable that is set names a complete bundle.
BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def bundle_path(
    option: str | None, environ: Mapping[str, str], system: Sequence[str] = SYSTEM_BUNDLES
) -> tuple[str, str] | None:
    """Where the trusted certificates are and what named that file; None on a machine without any."""
    if option:
        return option, "ca_file"
    for variable in BUNDLE_VARIABLES:
        if environ.get(variable):
            return environ[variable], variable
    return next(((path, "the system") for path in system if Path(path).is_file()), None)


def read_bundle(option: str | None, environ: Mapping[str, str], system: Sequence[str] = SYSTEM_BUNDLES) -> str:
    """The trusted certificates as PEM, empty on a machine without any.

    Only certificates: a private key kept in the same file is left out. Raises ``DeclarationError`` when the file that
    an option or a variable names can't be read or holds no certificate.
    """
    found = bundle_path(option, environ, system)
    if found is None:
        return ""
    path, origin = found
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DeclarationError(f"{origin}: cannot read the certificates in {path}: {error.strerror}") from error
    certificates = _CERTIFICATE.findall(text)
    if not certificates:
        raise DeclarationError(f"{origin}: {path} holds no certificate in PEM form")
    return "".join(f"{certificate}\n" for certificate in certificates)
