"""Certificates of a cluster: Dask's `Security`, tried before anything is connected with it.

Where Dask would fail in the middle of a connection, or ask a terminal for a passphrase.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Literal

import dask
from distributed.security import Security
from distributed.utils import import_term

from chunkfold.errors import PlanError

Role = Literal["client", "scheduler", "worker"]
ROLES: tuple[Role, ...] = ("client", "scheduler", "worker")
_TLS = "distributed.comm.tls"
_PAGES = "distributed.scheduler.dashboard.tls"
"""The same setting, for the pages of workers."""
_REQUIRED = "distributed.comm.require-encryption"
ENCRYPTED = ("tls", "wss")
"""Schemes of addresses."""
_FLIGHTS = 4
"""The most messages of a handshake."""
_LAPSED = {9: "is not valid yet", 10: "has expired"}
"""OpenSSL's errors for certificates that are the same for every peer."""


def tls_settings(
    tls_ca_file: str | None = None, tls_cert: str | None = None, tls_key: str | None = None
) -> dict[str, Any]:
    """Return settings of Dask's that have this side, whatever its role, use these PEM files.

    None: what is configured; but of a certificate the key is in its file, if it is not given.
    """
    settings: dict[str, Any] = {}
    if tls_ca_file is not None:
        settings[f"{_TLS}.ca-file"] = tls_ca_file
    for role in ROLES:
        if tls_cert is not None:
            settings[f"{_TLS}.{role}.cert"] = tls_cert
        if tls_cert is not None or tls_key is not None:
            settings[f"{_TLS}.{role}.key"] = tls_key
    if settings and dask.config.get(_REQUIRED, None) is None:
        settings[_REQUIRED] = True  # as Dask's own commands take such options
    return settings


def page_settings(security: Security) -> dict[str, Any]:
    """Return settings of Dask's that have a worker's pages behind TLS where its connections are.

    With the same certificate, unless the configuration names one for pages. Dask lets whoever
    reaches them read, certificate or not; one that is in memory it does not take for pages.
    """
    files = _files(security, "worker")
    cert, key = files.get("cert", ""), files.get("key")
    if not cert or dask.config.get(f"{_PAGES}.cert", None) or "\n" in f"{cert}{key}":
        return {}
    return {f"{_PAGES}.cert": cert, f"{_PAGES}.key": key}


def security_for(address: str, scheme: str, role: Role, given: Security | None = None) -> Security:
    """Return what a role connects to a scheduler with: what is given, else what is configured.

    Raises
    ------
    PlanError
        If that scheduler's address and the configuration differ on encryption, or certificates are
        missing or of no use.
    """
    loaded = _loaded(address) if given is None and role == "client" else None
    security = given or loaded or configured()
    if security.require_encryption and scheme not in (*ENCRYPTED, "inproc"):
        raise PlanError(
            f"{address!r} is not an encrypted address, which {_REQUIRED} or --tls-cert requires: "
            "write it like tls://10.0.0.1:8786"
        )
    if scheme in ENCRYPTED or security.require_encryption:
        check(security, role, f"for {address!r}")
    return security


def security_of_local(given: Security | bool | None, *, encrypted: bool) -> Security:
    """Return what a cluster of this host is secured with; True: with temporary certificates.

    One whose addresses are encrypted, or that Dask's configuration wants encrypted, and that is
    given no certificates has temporary ones, in memory.

    Raises
    ------
    PlanError
        If certificates are missing or of no use, or temporary ones cannot be made.
    """
    if given is True:
        return _temporary()
    security = given or configured()
    if not isinstance(security, Security):
        raise TypeError(f"security is {given!r}; give a distributed.Security, or True")
    if not (security.require_encryption or encrypted):
        return security
    if not given and not any(_files(security, role) for role in ROLES):
        return _temporary()
    for role in ROLES:
        check(security, role, "for a local cluster that is encrypted")
    return security


def configured() -> Security:
    """Return what Dask's configuration says.

    Raises
    ------
    PlanError
        If that makes no sense.
    """
    try:
        return Security()
    except (ValueError, ImportError) as error:
        raise PlanError(f"Dask's configuration of TLS: {error}") from error


def check(security: Security, role: Role, purpose: str) -> None:
    """Find out whether a role's certificates are there, fit each other and are valid today.

    Raises
    ------
    PlanError
        If not.
    """
    files = _files(security, role)
    for name in ("ca_file", "cert"):
        if name not in files:
            setting = "ca-file" if name == "ca_file" else f"{role}.cert"
            option = "--tls-ca-file" if name == "ca_file" else "--tls-cert"
            raise PlanError(
                f"{_TLS}.{setting} is missing {purpose}: give {option} FILE, or set it in Dask's "
                "configuration"
            )
    for name, given in files.items():
        _check_pem(name.replace("_", " "), given)
    try:
        ours = security.get_connection_args(role)["ssl_context"]
        theirs = security.get_listen_args(role)["ssl_context"]
    except (ssl.SSLError, OSError, ValueError) as error:
        key = files.get("key", files["cert"])
        raise PlanError(
            f"TLS certificate {_shown(files['cert'])} with key {_shown(key)} and CA "
            f"{_shown(files['ca_file'])} cannot be used: {_words(error)}"
        ) from error
    lapsed = _lapsed(ours, theirs, client=role == "client")
    if lapsed is not None:
        raise PlanError(
            f"TLS certificate {_shown(files['cert'])}, or its CA {_shown(files['ca_file'])}, "
            f"{lapsed}: give a valid one"
        )


def _files(security: Security, role: Role) -> dict[str, str]:
    found: dict[str, Any] = security.get_tls_config_for_role(role)
    return {name: found[name] for name in ("ca_file", "cert", "key") if found.get(name)}


def _check_pem(what: str, given: str) -> None:
    """Read it, as Dask will: PEM itself, or the path of a file."""
    try:
        text = given if "\n" in given else Path(given).read_text("ascii", "replace")
    except OSError as error:
        raise PlanError(f"TLS {what} {given!r} cannot be read: {error.strerror}") from error
    if "-----BEGIN " not in text:
        raise PlanError(f"TLS {what} {_shown(given)} is not in PEM format: it has no BEGIN line")
    if "ENCRYPTED" in text:
        raise PlanError(
            f"TLS {what} {_shown(given)} is protected by a passphrase, which Dask cannot give: "
            "decrypt it (openssl pkey -in KEY -out PLAIN)"
        )


def _lapsed(ours: ssl.SSLContext, theirs: ssl.SSLContext, *, client: bool) -> str | None:
    """Shake hands with ourselves, and say whether the certificate has lapsed.

    Whoever else is wrong about it, such as the CA, may be so on purpose: another side's differs.
    """
    if not client:  # which then shows none of its own
        theirs.verify_mode = ssl.CERT_NONE
    else:
        ours.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        ours.wrap_bio(back, there),
        theirs.wrap_bio(there, back, server_side=True),
    )
    for end in _FLIGHTS * ends:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return _LAPSED.get(error.verify_code)
        except ssl.SSLError:
            return None
    return None


def _temporary() -> Security:
    try:
        made: Security = Security.temporary()
    except ImportError as error:
        raise PlanError(
            "temporary TLS certificates need another package: pip install cryptography; or "
            f"configure your own certificates ({_TLS}.ca-file and so on)"
        ) from error
    return made


def _loaded(address: str) -> Security | None:
    """Ask what `distributed.client.security-loader` names, as Dask's client does."""
    name = dask.config.get("distributed.client.security-loader", None)
    if not name:
        return None
    try:
        found: Security | None = import_term(name)({"address": address})
    except Exception as error:  # whatever it is, it is a user's own
        raise PlanError(f"distributed.client.security-loader {name!r} fails: {error}") from error
    return found


def _shown(given: str) -> str:
    return "(in memory)" if "\n" in given else repr(given)


def _words(error: Exception) -> str:
    """Say what OpenSSL says, without where in its source."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)


def tls_words(error: BaseException) -> str | None:
    """Say why a connection failed, where TLS is why."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, ssl.SSLCertVerificationError):
            return f"its TLS certificate is refused: {at.verify_message}"
        if isinstance(at, ssl.SSLEOFError):  # its alert may come too late
            return (
                "it ended the connection, as a server does that refuses this side's TLS certificate"
            )
        if isinstance(at, ssl.SSLError):
            _, alert, said = _words(at).rpartition(" alert ")
            return f"it refuses this side's TLS certificate: {said}" if alert else f"TLS: {said}"
        at = getattr(at, "real_error", None) or at.__cause__ or at.__context__  # as Tornado's have
    return None
