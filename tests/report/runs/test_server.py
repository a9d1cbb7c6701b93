"""The server of a live page: two addresses, this machine, nothing else."""

import gzip
import http.client
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

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
    host = str(server.server_address[0])
    connection = http.client.HTTPConnection(host, server.server_port, timeout=20)
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
    foreign = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:80:80"]
    for name in (*foreign, "127.0.0.2", "10.0.0.1:80", "", ":80", "[::1"):
        assert ask(server, "/", Host=name)[0] == 403, name
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert ask(server, "/", Host=name)[0] == 200, name
        assert ask(server, "/", Host=f"{name}:{server.server_port}")[0] == 200, name


def test_any_local_address_answers_where_it_is_bound(server: PageServer) -> None:
    with PageServer(server.page, "127.0.0.2", 0) as other:
        assert other.address == f"http://127.0.0.2:{other.server_port}/" and other.is_local
        threading.Thread(target=other.serve_forever, args=(0.05,), daemon=True).start()
        names = ("127.0.0.2", f"127.0.0.2:{other.server_port}", "127.0.0.3", "evil.example")
        found = [ask(other, "/", Host=name)[0] for name in names]
        other.shutdown()
    assert found == [200, 200, 403, 403]


def test_a_run_that_was_removed_before_its_first_page_is_not_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    with serving(run) as server:
        shutil.rmtree(run)
        status, content, _ = ask(server, "/")
    assert status == 404 and b"is not a folder" in content
    assert capfd.readouterr().err == ""


def test_a_query_without_end_is_answered(server: PageServer) -> None:
    query = "&".join(f"{number}=x" for number in range(500))
    assert ask(server, f"/changes?{query}")[0] == 200


def test_a_busy_port_and_a_wrong_host_are_usage_errors(server: PageServer) -> None:
    with pytest.raises(UserError, match=rf"--port={server.server_port}: Address already in use"):
        PageServer(server.page, "127.0.0.1", server.server_port)
    with pytest.raises(UserError, match=r"--host=no\.such\.host\.invalid is no address"):
        PageServer(server.page, "no.such.host.invalid", 0)
    for host in ("bad..host", "x" * 70 + ".example"):
        with pytest.raises(UserError, match=rf"--host={host} is no address: not a valid host name"):
            PageServer(server.page, host, 0)
    with pytest.raises(UserError, match=r"--host=203.0.113.7 --port=0"):
        PageServer(server.page, "203.0.113.7", 0)
