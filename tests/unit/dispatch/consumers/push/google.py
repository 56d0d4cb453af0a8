"""Google's machines as a workload sees them: a metadata server, and an issuer that exchanges foreign tokens."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"


@dataclass
class GoogleMachine:
    """A fake machine and its answers. Fields can be changed while it runs."""

    issue: Callable[[int], str]
    """Makes a token that is valid for these seconds."""
    project: str = "demo"
    lifetime_s: int = 3_600
    has_account: bool = True
    status: int = 200
    """Answers other than 200 are the same for every path but the first one, with which libraries look for a machine."""
    foreign_token: str = "proof-of-elsewhere"
    """The token that the issuer exchanges."""
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def answer(self, path: str) -> tuple[int, str]:
        """Answer a request of the metadata server."""
        answers = {
            "/": "0.1/\ncomputeMetadata/\n",
            "/computeMetadata/v1/project/project-id": self.project,
        }
        if self.has_account:
            account = {"email": "sender@demo.iam.gserviceaccount.com", "scopes": ["cloud-platform"]}
            answers[_ACCOUNT] = json.dumps(account)
            if path == f"{_ACCOUNT}token":
                answers[path] = self._token()
        if path != "/" and self.status != 200:
            return self.status, "unwell"
        return (200, answers[path]) if path in answers else (404, "not found")

    def exchange(self, form: dict[str, list[str]]) -> tuple[int, str]:
        """Answer a request of the issuer."""
        if self.status != 200:
            return self.status, "unwell"
        if form.get("subject_token") == [self.foreign_token]:
            return 200, self._token(issued_token_type="urn:ietf:params:oauth:token-type:access_token")
        return 400, json.dumps({"error": "invalid_grant", "error_description": "The subject token is not accepted."})

    def _token(self, **more: str) -> str:
        token = self.issue(self.lifetime_s)
        return json.dumps({"access_token": token, "expires_in": self.lifetime_s, "token_type": "Bearer", **more})


@contextmanager
def running(issue: Callable[[int], str]) -> Iterator[GoogleMachine]:
    """Serve a machine, and an issuer at /v1/token."""
    machine = GoogleMachine(issue)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            machine.asked.append(path)
            is_library = self.headers.get("Metadata-Flavor") == "Google"
            self._reply(*(machine.answer(path) if is_library else (403, "no Metadata-Flavor")))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._reply(*machine.exchange(parse_qs(body.decode())))

        def _reply(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", "application/json" if text.startswith("{") else "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        machine.address = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        try:
            yield machine
        finally:
            server.shutdown()
