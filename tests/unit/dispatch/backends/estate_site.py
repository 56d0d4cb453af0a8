"""Brokers and bookies that answer as they are told, on addresses of their own in 127/8."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Mapping[str, Any]
"""By path without `/admin/v2/`, `/api/v1/` and query: a document, text, a status code, an Event to wait for, or a
function that takes the body and returns one of these; `PUT path` for what is put."""

_PER_BOOKIE = "pulsar_managedLedger_client_per_channel_bookie_client_bookie_"
BROKER_METRICS = """\
# TYPE pulsar_topics_count gauge
pulsar_topics_count{cluster="c",namespace="pulsar/c/b1"} 1
pulsar_topics_count{cluster="c",namespace="fairlane/shared"} 7
pulsar_broker_publish_latency{cluster="c",quantile="0.5"} 4.0
pulsar_broker_publish_latency{cluster="c",quantile="0.99"} 21.5
pulsar_broker_publish_latency{cluster="c",quantile="1.0"} -Inf
pulsar_broker_throttled_connections{cluster="c"} 2.0
pulsar_ml_cache_hits_rate{cluster="c"} 30.0
pulsar_ml_cache_misses_rate{cluster="c"} 10.0
pulsar_metadata_store_ops_latency_ms_bucket{cluster="c",type="put",status="success",le="10.0"} 98
pulsar_metadata_store_ops_latency_ms_bucket{cluster="c",type="put",status="success",le="50.0"} 100
pulsar_metadata_store_ops_latency_ms_bucket{cluster="c",type="put",status="success",le="+Inf"} 100
BOOKIE_127_0_0_2_3181_ADD_ENTRY{success="true",quantile="0.99"} 400.0
BOOKIE_127_0_0_3_3181_ADD_ENTRY{success="true",quantile="0.99"} NaN
""".replace("BOOKIE_", _PER_BOOKIE)
BOOKIE_METRICS = """\
# TYPE bookie_ledger_dir_data_ledgers_usage gauge
bookie_ledger_dir_data_ledgers_usage 93.5
bookkeeper_server_ADD_ENTRY{success="true",quantile="0.5", thread="0"} 3.0
bookkeeper_server_ADD_ENTRY{success="true",quantile="0.99", thread="0"} 82.0
bookkeeper_server_ADD_ENTRY_count{success="true", thread="0"} 37
bookie_journal_JOURNAL_SYNC{success="true",quantile="0.99", journalIndex="0"} 7.0
bookie_journal_JOURNAL_SYNC{success="false",quantile="0.99", journalIndex="0"} NaN
bookie_ledgers_count{ledgerDir="data"} 16
"""
REPORT = {
    "cpu": {"usage": 40.0, "limit": 200.0},
    "memory": {"usage": 100.0, "limit": 256.0},
    "directMemory": {"usage": 16.0, "limit": 192.0},
    "bandwidthIn": {"usage": 0.0, "limit": -1000.0},
    "bandwidthOut": {"usage": 0.0, "limit": -1000.0},
    "lastStats": {
        "fairlane/shared/0x00000000_0x80000000": {"msgThroughputIn": 5.0, "msgRateIn": 2.0, "topics": 3},
        "pulsar/c/b1/0x00000000_0xffffffff": {"topics": 1},
    },
}
POLICIES = {
    "bundles": {"numBundles": 4},
    "persistence": {"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2},
}
CONFIG = {"managedLedgerDefaultEnsembleSize": "2", "managedLedgerDefaultWriteQuorum": "2"}


def broker(**answers: Any) -> dict[str, Any]:
    """Return the answers of a broker that is well; names have `__` for `/` and `_` for `-`."""
    usual = {
        "brokers/leaderBroker": {"serviceUrl": "http://b1:8080", "brokerId": "b1:8080"},
        "bookies/all": {"bookies": [{"bookieId": "127.0.0.3:3181"}, {"bookieId": "127.0.0.2:3181"}]},
        "bookies/racks-info": {"default": {"127.0.0.2:3181": {"rack": "/r1", "hostname": "h"}}},
        "clusters": ["c"],
        "brokers/configuration/runtime": CONFIG,
        "broker-stats/load-report": REPORT,
        "broker-stats/topics": {},
        "metrics": BROKER_METRICS,
    }
    return usual | answers


def bookie(writable: list[str], read_only: list[str], **answers: Any) -> dict[str, Any]:
    usual = {
        "metrics": BOOKIE_METRICS,
        "bookie/cluster_info": {"auditorId": "127.0.0.2:3181", "clusterUnderReplicated": False},
        "bookie/list_bookies?type=rw": dict.fromkeys(writable),
        "bookie/list_bookies?type=ro": dict.fromkeys(read_only),
        "config/server_config": {"autoRecoveryDaemonEnabled": "true"},
        "autorecovery/list_under_replicated_ledger": "No under replicated ledgers found",
    }
    return usual | answers


@contextmanager
def serving(answers: Answers, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the answers; yield host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/admin/v2/").removeprefix("/api/v1/").strip("/")
            seen.append((path, self.headers.get("Authorization")))
            self.give(answers.get(path, POLICIES if path.startswith("namespaces/") else 404))

        def do_PUT(self) -> None:
            path = self.path.removeprefix("/admin/v2/").removeprefix("/api/v1/").strip("/")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
            self.give(answers.get(f"PUT {path}", 404), body)

        def give(self, answer: Any, body: Any = None) -> None:
            if callable(answer):
                answer = answer(body)
            if isinstance(answer, threading.Event):
                answer.wait(20)
                answer = 500
            status = answer if isinstance(answer, int) else 200
            content = answer if isinstance(answer, str) else json.dumps(answer)
            with suppress(ConnectionError):  # a caller may not wait for the answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(content.encode())

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    seen = answers.get("seen", [])

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a look asks everything at once

    server = Server((host, port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve_estate(
    servers: ExitStack, brokers: Sequence[dict[str, Any]], bookies: Sequence[dict[str, Any]]
) -> tuple[list[str], int]:
    """Serve brokers, each of which lists all, and bookies at 127.0.0.2, 127.0.0.3 and so on, on one port.

    Return the brokers' names and the bookies' port.
    """
    names = [servers.enter_context(serving(answers)) for answers in brokers]
    for answers in brokers:
        answers.setdefault("brokers", names)
    port = 0
    for number, answers in enumerate(bookies):
        port = int(servers.enter_context(serving(answers, f"127.0.0.{number + 2}", port)).rpartition(":")[2])
    return names, port
