"""The server of a live page: two addresses, this machine, nothing else."""

import gzip
import http.client
import json
from collections.abc import Iterator

import pytest
from page_runs import serving, write_run

from manyhands.errors import UserError
from manyhands.report.runs.server import PageServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    run = write_run(tmp_path_factory.mktemp("served") / "run")
    with serving(run) as running:
        yield running


def ask(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def test_the_page_is_served_as_such(server: PageServer) -> None:
    status, content, headers = ask(server, "/")
    assert status == 200 and content.startswith(b"<!doctype html>") and b"data-live" in content
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert server.address == f"http://127.0.0.1:{server.server_port}/" and server.is_local


def test_changes_are_json_and_packed_for_those_who_can_unpack(server: PageServer) -> None:
    status, content, _ = ask(server, "/changes?top=1")
    assert status == 200 and json.loads(content) == {"reload": True}
    _, packed, headers = ask(server, "/changes", **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip" and json.loads(gzip.decompress(packed))


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/run.json",
        "/changes/",
        "/index.html",
        "/?/../x/..//run.json"[2:],
    ],
)
def test_nothing_else_is_there(server: PageServer, path: str) -> None:
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_can_be_done_but_get(server: PageServer, method: str) -> None:
    assert ask(server, "/", method)[0] == 501


def test_a_name_that_another_site_points_here_is_forbidden(server: PageServer) -> None:
    assert ask(server, "/", Host="evil.example:80")[0] == 403
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


def test_a_query_without_end_is_answered(server: PageServer) -> None:
    query = "&".join(f"{number}=x" for number in range(500))
    assert ask(server, f"/changes?{query}")[0] == 200


def test_a_busy_port_and_a_wrong_host_are_usage_errors(server: PageServer) -> None:
    with pytest.raises(UserError, match=rf"--port={server.server_port}: Address already in use"):
        PageServer(server.page, "127.0.0.1", server.server_port)
    with pytest.raises(UserError, match=r"--host=no\.such\.host\.invalid is no address"):
        PageServer(server.page, "no.such.host.invalid", 0)
    with pytest.raises(UserError, match=r"--host=203.0.113.7 --port=0"):
        PageServer(server.page, "203.0.113.7", 0)
