"""Fairlane and Pulsar beside Kafka on this machine: throughput over many topics, and a late task.

python benchmarks/kafka/run.py topics                                   everything, about half an hour
python benchmarks/kafka/run.py topics --durability fsync --topics 64    a part of it
python benchmarks/kafka/run.py priority                                 on the local stack (`fairlane stack up`)

Prints the figures of all runs as JSON.
"""

import argparse
import json
import signal
import sys
import time
from typing import Any

from benchmarks.kafka import priority, topics
from benchmarks.kafka.installing import install
from benchmarks.kafka.load import Load
from dispatcher.model.errors import FairlaneError
from fairlane.cli.base.output import say
from fairlane.settings import Settings

DURABILITIES = ("fsync", "memory")
"""A message is confirmed when it is on disk, or when the operating system has it."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("topics", "priority"))
    parser.add_argument("--durability", action="append", choices=DURABILITIES, help="only this one (repeatable)")
    parser.add_argument("--topics", action="append", type=int, help="this number of topics (repeatable)")
    parser.add_argument("--system", action="append", choices=("kafka", "fairlane"), help="only this one's late task")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="time of a run that counts")
    return parser.parse_args()


def measure_topics(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the rates by durability, number of topics, publisher and pattern."""
    tools, results = install(say), dict[str, Any]()
    for count in chosen.topics or topics.TOPICS:
        for durability in chosen.durability or DURABILITIES:
            began_s = time.monotonic()
            load = Load(address="", topics=count, seconds=chosen.seconds)
            rates = topics.measure(load, chosen.runs, tools, say, fsync=durability == "fsync")
            results.setdefault(durability, {})[str(count)] = rates
            say(f"{durability}, {count} topics: {time.monotonic() - began_s:.0f} s")
    return results


def measure_priority(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of the late task by system."""
    systems = {
        "kafka": lambda: priority.on_kafka(install(say), chosen.runs),
        "fairlane": lambda: priority.on_fairlane(Settings(), chosen.runs, say),
    }
    return {name: systems[name]() for name in chosen.system or systems}


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        runs = measure_topics(chosen) if chosen.what == "topics" else measure_priority(chosen)
    except FairlaneError as error:
        say(f"{error.cause} {error.next_step}".rstrip())
        return error.exit_code
    print(json.dumps({"runs": runs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
