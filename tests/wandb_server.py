"""A server of Weights & Biases that keeps the history of runs in memory, as far as runs need it."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KEY = "a" * 40


class WandbServer:
    """Answers on a port of this machine; `history` has the rows of every run by its id."""

    def __init__(self, port: int = 0) -> None:
        self.files: dict[tuple[str, str], list[str]] = {}
        self.is_mute = threading.Event()  # Requests are left without an answer while it is set.
        self._server = ThreadingHTTPServer(("127.0.0.1", port), make_handler(self))
        self._server.daemon_threads = True

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which wandb finds it."""
        host, port = self._server.server_address[:2]
        often = {"WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "0.2"}
        return {"WANDB_BASE_URL": f"http://{host!s}:{port}", "WANDB_API_KEY": KEY} | often

    def __enter__(self) -> "WandbServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def history(self, run_id: str) -> list[dict[str, Any]]:
        """The rows of a run, in the order of their places in its file."""
        return [json.loads(line) for line in self._lines(run_id, "wandb-history.jsonl")]

    def forget(self, run_id: str, num_rows: int) -> None:
        """Lose the last rows of a run, as if they had never arrived."""
        del self._lines(run_id, "wandb-history.jsonl")[-num_rows:]

    def _lines(self, run_id: str, name: str) -> list[str]:
        return self.files.setdefault((run_id, name), [])

    def receive(self, run_id: str, files: dict[str, Any]) -> None:
        """Put lines where a run has them; a place that is written again has the later one."""
        for name, chunk in files.items():
            lines, start = self._lines(run_id, name), chunk["offset"]
            lines[start : start + len(chunk["content"])] = chunk["content"]

    def answer(self, operation: str, values: dict[str, Any]) -> dict[str, Any]:
        """The answer to a query."""
        run_id = values.get("name") or values.get("run") or ""
        project = {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}
        match operation:
            case "RunResumeStatus":
                return {"model": project | {"bucket": self._bucket(run_id)}}
            case "UpsertBucket":
                bucket = {"id": run_id, "name": run_id, "displayName": run_id, "project": project}
                count = len(self._lines(run_id, "wandb-history.jsonl"))
                bucket |= {"config": "{}", "historyLineCount": count}
                return {"upsertBucket": {"bucket": bucket, "inserted": count == 0}}
            case "CreateRunFiles":
                return {"createRunFiles": {"runID": run_id, "uploadHeaders": [], "files": []}}
        return {}

    def _bucket(self, run_id: str) -> dict[str, Any] | None:
        history = self._lines(run_id, "wandb-history.jsonl")
        if not history:
            return None
        counts = {
            f"{name}LineCount": len(self._lines(run_id, file))
            for name, file in (
                ("history", "wandb-history.jsonl"),
                ("events", "wandb-events.jsonl"),
                ("log", "output.log"),
            )
        }
        texts = {
            "config": "{}",
            "summaryMetrics": "{}",
            "wandbConfig": json.dumps({"t": 1}),
            "eventsTail": "[]",
        }
        tail = json.dumps(history[-1:])
        return {"id": run_id, "name": run_id, "historyTail": tail, **counts, **texts}


def make_handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    """The handler of a server's requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            while server.is_mute.is_set():
                threading.Event().wait(0.1)
            self._reply(self._answer(body))

        def _answer(self, body: bytes) -> dict[str, Any]:
            if self.path.endswith("/file_stream"):
                server.receive(self.path.split("/")[-2], json.loads(body).get("files") or {})
            if self.path != "/graphql":
                return {}
            request = json.loads(body)
            asked, values = request.get("operationName") or "", request.get("variables") or {}
            return {"data": server.answer(asked, values)}

        def _reply(self, answer: dict[str, Any]) -> None:
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
