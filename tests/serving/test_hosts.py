"""Who may be asked for: over real sockets, as a rebinding page or Prometheus would."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from prometheus_client import CollectorRegistry

from serving.hosts import HostCheck, Hosts
from serving.http_server import HttpServer
from serving.rank_http import rank_app


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("localhost:9464", True),
        ("LOCALHOST.", True),
        ("app.localhost:1", True),
        ("127.0.0.1:9464", True),
        ("10.2.3.4", True),
        ("[::1]:9464", True),
        ("[fe80::1%25eth0]", True),
        ("rank-service:9464", True),
        ("Rank.Example.ORG", True),
        ("example.org", False),
        ("evil.example:9464", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("notlocalhost", False),
        ("1.2.3", False),
        ("", False),
    ],
)
def test_own_names_and_addresses_are_known_and_others_are_not(header: str, known: bool) -> None:
    assert Hosts("rank-service", ["rank.example.org"]).has(header) is known
    assert Hosts("127.0.0.1", ["*"]).has(header)


@pytest.mark.parametrize("name", ["http://a", "a:9464", "", "a b", "-a"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--allow-host"):
        Hosts("127.0.0.1", [name])


async def test_a_foreign_host_is_refused_and_an_allowed_one_is_served() -> None:
    app = HostCheck(rank_app(CollectorRegistry(), None), Hosts("127.0.0.1", ["prom-target"]))
    server = HttpServer(app, "127.0.0.1", 0)
    address = await server.start()
    try:
        async with httpx.AsyncClient() as client:
            for host, status in ((address, 200), ("prom-target:9464", 200), ("evil.example", 403)):
                answer = await client.get(f"http://{address}/metrics", headers={"host": host})
                assert answer.status_code == status
            assert "evil.example" in answer.text
            assert "--allow-host evil.example" in answer.text
            strange = await client.get(f"http://{address}/", headers={"host": "<b>"})
            assert (strange.status_code, "<b>" in strange.text) == (403, False)
        assert await _raw(address, b"GET /metrics HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK"
    finally:
        await server.stop()


async def _raw(address: str, request: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), family=socket.AF_INET)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line.strip()
