"""A small Hub on this machine: enough of its HTTP interface for huggingface_hub to push and fetch.

That library reads the address of a Hub when it is imported: a process that has imported it already,
as one that was forked has, must adopt this Hub.
"""

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from huggingface_hub import constants

TOKENS = {"hf_writer": "write", "hf_reader": "read"}
OWNER = "me"
ORGANIZATION = "lab"
POLL_S = 0.01
LICENSES = ("apache-2.0", "mit")
ADOPTING = """
import os
os.environ.update({environ})
from huggingface_hub import constants
vars(constants).update({constants})
"""


@dataclass
class Repo:
    """A repository: every commit's files, the newest last."""

    private: bool | None
    commits: list[dict[str, bytes]] = field(default_factory=lambda: [{}])
    messages: list[str] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1]

    def sha(self, index: int = -1) -> str:
        names = sorted(self.commits[index].items())
        return hashlib.sha1(repr(names).encode()).hexdigest()

    def at(self, revision: str) -> dict[str, bytes] | None:
        if revision == "main":
            return self.files
        found = [index for index in range(len(self.commits)) if self.sha(index) == revision]
        return self.commits[found[-1]] if found else None


class HubServer:
    """The server, its repositories, and the failures it was told to make."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.failures: dict[str, int] = {}
        """Status by a part of the path: such requests fail; 0 breaks the connection off."""
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def environ(self, home: Path) -> dict[str, str]:
        """What makes a new process talk to this Hub, logged in and with a home of its own."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": "hf_writer",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def constants(self, home: Path) -> dict[str, str | bool]:
        """What the library makes of those variables when it is imported."""
        return {
            "ENDPOINT": self.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": self.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
        }

    def adopt(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        """Make this very process talk to this Hub, though its library is imported already."""
        for name, value in self.environ(home).items():
            monkeypatch.setenv(name, value)
        for name, value in self.constants(home).items():
            monkeypatch.setattr(constants, name, value)

    def program(self, home: Path, text: str) -> list[str]:
        """A command that adopts this Hub and then runs the text of a program."""
        adopting = ADOPTING.format(environ=self.environ(home), constants=self.constants(home))
        return [sys.executable, "-c", adopting + text]

    def __enter__(self) -> "HubServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Go away, as a network does."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve()

            def do_HEAD(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def do_PUT(self) -> None:
                self._serve()

            def log_message(self, *_: object) -> None:
                """Keep the tests' output clean."""

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                path = unquote(urlsplit(self.path).path)
                hub.requests.append(f"{self.command} {path}")
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                answer = hub.answer(self.command, path, self.rfile.read(length), token)
                if answer.status == 0:
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

        return Handler

    def answer(self, method: str, path: str, body: bytes, token: str) -> "Answer":
        """What the Hub says to a request."""
        for part, status in self.failures.items():
            if part in path:
                return failure(status, f"told to fail with {status}")
        for verb, pattern, speak in ROUTES:
            found = re.fullmatch(pattern, path)
            if verb in (method, "GET" if method == "HEAD" else method) and found:
                return speak(Request(self, found.groupdict(), body, TOKENS.get(token)))
        return failure(404, f"no such address: {method} {path}")


@dataclass(frozen=True)
class Request:
    """One request, taken apart."""

    hub: HubServer
    parts: dict[str, str]
    body: bytes
    role: str | None
    """What the sender's token allows; None without a valid one."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """Status, headers and body."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def success(value: Any) -> Answer:
    return Answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def failure(status: int, told: str, code: str | None = None) -> Answer:
    headers = {"Content-Type": "application/json"} | ({"X-Error-Code": code} if code else {})
    return Answer(status, json.dumps({"error": told}).encode(), headers)


def who_am_i(request: Request) -> Answer:
    if request.role is None:
        return failure(401, "Invalid username or password.")
    token = {"displayName": "robot", "role": request.role}
    auth = {"type": "access_token", "accessToken": token}
    return success({"type": "user", "name": OWNER, "orgs": [{"name": ORGANIZATION}], "auth": auth})


def create(request: Request) -> Answer:
    wish = request.json
    name = f"{wish.get('organization') or OWNER}/{wish['name']}"
    if request.role != "write" or wish.get("organization") not in (None, OWNER, ORGANIZATION):
        return failure(403, f"You don't have the rights to create a model under {name}")
    url = {"url": f"{request.hub.url}/{name}", "name": name}
    if name in request.hub.repos:
        return Answer(409, json.dumps(url | {"error": "exists already"}).encode())
    private = wish.get("private", {"private": True}.get(wish.get("visibility")))
    request.hub.repos[name] = Repo(private)
    return success(url)


def validate(request: Request) -> Answer:
    names = yaml.safe_load(request.json["content"].split("---\n")[1])
    if names.get("license") in (None, *LICENSES):
        return success({"errors": [], "warnings": []})
    told = {"message": f'"license" must be one of [{", ".join(LICENSES)}]'}
    return Answer(400, json.dumps({"errors": [told], "warnings": []}).encode())


def preupload(request: Request) -> Answer:
    def mode(path: str) -> str:
        return "lfs" if path.endswith(".safetensors") else "regular"

    files = [
        {"path": each["path"], "uploadMode": mode(each["path"]), "shouldIgnore": False}
        for each in request.json["files"]
    ]
    return success({"files": files}) if request.role == "write" else failure(403, "read only")


def batch(request: Request) -> Answer:
    def place(item: dict[str, Any]) -> dict[str, Any]:
        upload = {"upload": {"href": f"{request.hub.url}/objects/{item['oid']}", "header": {}}}
        return item if item["oid"] in request.hub.objects else item | {"actions": upload}

    objects = [place(each) for each in request.json["objects"]]
    return success({"transfer": "basic", "objects": objects})


def store(request: Request) -> Answer:
    if hashlib.sha256(request.body).hexdigest() != request.parts["oid"]:
        return failure(400, "not what was announced")
    request.hub.objects[request.parts["oid"]] = request.body
    return Answer(200, headers={"ETag": request.parts["oid"]})


def commit(request: Request) -> Answer:
    repo = request.hub.repos[request.parts["repo"]]
    files = dict(repo.files)
    for line in map(json.loads, request.body.splitlines()):
        value = line["value"]
        if line["key"] == "header":
            repo.messages.append(value["summary"])
        elif line["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            files[value["path"]] = request.hub.objects[value["oid"]]
    repo.commits.append(files)
    url = f"{request.hub.url}/{request.parts['repo']}/commit/{repo.sha()}"
    return success({"commitUrl": url, "commitOid": repo.sha(), "success": True})


def with_files(speak: Callable[[Request, Repo, dict[str, bytes]], Answer]) -> Any:
    """Let a route answer for files that exist, and be told of those that do not."""

    def guarded(request: Request) -> Answer:
        repo = request.hub.repos.get(request.parts["repo"])
        if repo is None or (repo.private and request.role is None):
            told = "Repository not found"
            return failure(404, told, "RepoNotFound") if request.role else failure(401, told)
        files = repo.at(request.parts.get("revision") or "main")
        if files is None:
            return failure(404, "Invalid rev id", "RevisionNotFound")
        return speak(request, repo, files)

    return guarded


def sha_of(repo: Repo, files: dict[str, bytes]) -> str:
    return repo.sha(next(index for index, each in enumerate(repo.commits) if each is files))


def describe(request: Request, repo: Repo, files: dict[str, bytes]) -> Answer:
    names = [{"rfilename": name} for name in files]
    told = {"id": request.parts["repo"], "sha": sha_of(repo, files), "siblings": names}
    return success(told | {"private": bool(repo.private), "tags": [], "downloads": 0})


def tree(request: Request, repo: Repo, files: dict[str, bytes]) -> Answer:
    return success(
        [
            {"type": "file", "path": name, "size": len(data), "oid": etag_of(data)}
            for name, data in files.items()
        ]
    )


def resolve(request: Request, repo: Repo, files: dict[str, bytes]) -> Answer:
    data = files.get(request.parts["file"])
    if data is None:
        return failure(404, "Entry not found", "EntryNotFound")
    headers = {"ETag": f'"{etag_of(data)}"', "X-Repo-Commit": sha_of(repo, files)}
    return Answer(200, data, headers | {"Content-Type": "application/octet-stream"})


def etag_of(data: bytes) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


REPO = r"(?P<repo>[^/]+/[^/]+)"
REVISION = r"(?P<revision>[^/]+)"
ROUTES: list[tuple[str, str, Callable[[Request], Answer]]] = [
    ("GET", "/api/whoami-v2", who_am_i),
    ("POST", "/api/repos/create", create),
    ("POST", "/api/validate-yaml", validate),
    ("POST", f"/api/models/{REPO}/preupload/{REVISION}", preupload),
    ("POST", f"/{REPO}.git/info/lfs/objects/batch", batch),
    ("PUT", "/objects/(?P<oid>[0-9a-f]+)", store),
    ("POST", f"/api/models/{REPO}/commit/{REVISION}", commit),
    ("GET", f"/api/models/{REPO}", with_files(describe)),
    ("GET", f"/api/models/{REPO}/revision/{REVISION}", with_files(describe)),
    ("GET", f"/api/models/{REPO}/tree/{REVISION}", with_files(tree)),
    ("GET", f"/{REPO}/resolve/{REVISION}/(?P<file>.+)", with_files(resolve)),
]
