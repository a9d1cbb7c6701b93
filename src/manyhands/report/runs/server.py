"""Serves a live page: GET of the page and of its changes, nothing else."""

import gzip
import ipaddress
import json
import re
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, gaierror, getaddrinfo
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from manyhands.errors import UserError
from manyhands.report.runs.live_page import LivePage

MAX_QUERY = 64  # Sections of a page: more are none
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
PORT = re.compile(r":\d*$")  # At the end of an address


class PageServer(ThreadingHTTPServer):
    """A server for one page, on one address."""

    daemon_threads = True

    def __init__(self, page: LivePage, host: str, port: int) -> None:
        self.page = page
        try:
            family, *_, place = getaddrinfo(host, port)[0]
            self.address_family = family if family in (AF_INET, AF_INET6) else AF_INET
            super().__init__((str(place[0]), port), PageHandler)
        except gaierror as error:
            raise UserError(f"--host={host} is no address: {error.strerror}") from None
        except UnicodeError:
            raise UserError(f"--host={host} is no address: not a valid host name") from None
        except OSError as error:
            raise UserError(
                f"cannot listen on --host={host} --port={port}: {error.strerror}. Choose another "
                "port, or --port=0 for a free one"
            ) from None

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{self.name}:{self.server_port}/"

    @property
    def name(self) -> str:
        """The address it is bound to, as browsers write it."""
        host = str(self.server_address[0])
        return f"[{host}]" if ":" in host else host

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(str(self.server_address[0]).partition("%")[0]).is_loopback

    def serve_until_interrupted(self) -> None:
        """Answer requests until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            self.serve_forever(poll_interval=0.2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closes its tab in the middle of an answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class PageHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    server_version = "manyhands"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the page or its changes."""
        parts = urlsplit(self.path)
        if not self._is_addressed():
            # Another site may have pointed its name at this machine.
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        try:
            self._answer(parts.path, parts.query)
        except UserError as error:
            # The run directory was removed before the first page.
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))

    def _answer(self, path: str, query: str) -> None:
        if path == "/":
            self._send("text/html; charset=utf-8", self.server.page.html())
        elif path == "/changes":
            known = self._known(query)
            self._send("application/json", json.dumps(self.server.page.changes(known)))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _known(self, query: str) -> dict[str, str]:
        try:
            return dict(parse_qsl(query, max_num_fields=MAX_QUERY))
        except ValueError:
            return {}

    def _is_addressed(self) -> bool:
        # Browsers omit port 80.
        name = PORT.sub("", self.headers.get("Host", "")).lower()
        return not self.server.is_local or name in (*LOCAL_NAMES, self.server.name)

    def _send(self, kind: str, text: str) -> None:
        content = text.encode("utf-8", "replace")
        is_packed = "gzip" in self.headers.get("Accept-Encoding", "")
        content = gzip.compress(content, compresslevel=1) if is_packed else content
        self.send_response(HTTPStatus.OK)
        if is_packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the address."""
