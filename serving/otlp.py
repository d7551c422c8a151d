"""Whether traces are wanted, and where they go: an option first, then the OTEL_ environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PATH = "/v1/traces"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@dataclass(frozen=True, slots=True)
class OtlpConfig:
    """``url``: where spans are posted; ``None`` leaves it to the exporter, which reads the rest of
    the environment (headers, certificates, timeouts) in any case. ``service``: who they are of."""

    url: str | None
    service: str


def otlp_config(endpoint: str, environ: Mapping[str, str]) -> OtlpConfig | None:
    """``None``: no traces are wanted. ``endpoint`` is the base URL of a collector, or the URL for
    traces. Raises ``ValueError`` for a URL or a protocol that is not spoken here."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if not endpoint:
        exports = environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
        if not exports or not any(environ.get(name) for name in _ENDPOINTS):
            return None
    for name in _PROTOCOLS:
        if (protocol := environ.get(name, "http/protobuf")) != "http/protobuf":
            raise ValueError(f"{name} must be http/protobuf, got {protocol!r}")
    service = environ.get("OTEL_SERVICE_NAME") or "shortfirst-engine"
    if not endpoint:
        return OtlpConfig(None, service)
    if not endpoint.startswith(("http://", "https://")):
        raise ValueError(
            f"--otlp-endpoint must be a URL such as http://127.0.0.1:4318, got {endpoint!r}"
        )
    url = endpoint.rstrip("/")
    return OtlpConfig(url if url.endswith(_PATH) else url + _PATH, service)
