"""Fairlane and Pulsar beside Kafka on this machine: throughput over many topics, and a late task.

python benchmarks/kafka/run.py topics                                   everything, about half an hour
python benchmarks/kafka/run.py topics --durability fsync --topics 64    a part of it
python benchmarks/kafka/run.py priority                                 on the local stack (`fairlane stack up`)
python benchmarks/kafka/run.py table                                    all that was measured so far

The results of all calls are collected in --out.
"""

import argparse
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.kafka import priority, table, topics
from benchmarks.kafka.installing import ROOT, install
from benchmarks.kafka.load import Load
from benchmarks.stage import machine
from dispatcher.model.errors import FairlaneError
from fairlane.cli.base.output import say
from fairlane.settings import Settings

DURABILITIES = ("fsync", "memory")
"""A message is confirmed when it is on disk, or when the operating system has it."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("topics", "priority", "table"))
    parser.add_argument("--durability", action="append", choices=DURABILITIES, help="only this one (repeatable)")
    parser.add_argument("--topics", action="append", type=int, help="this number of topics (repeatable)")
    parser.add_argument("--system", action="append", choices=("kafka", "fairlane"), help="only this one's late task")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="time of a run that counts")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kafka.json", help="where the results go")
    return parser.parse_args()


def measure_topics(chosen: argparse.Namespace, results: table.Results) -> None:
    tools = install(say)
    for count in chosen.topics or topics.TOPICS:
        for durability in chosen.durability or DURABILITIES:
            began_s = time.monotonic()
            load = Load(address="", topics=count, seconds=chosen.seconds)
            rates = topics.measure(load, chosen.runs, tools, say, fsync=durability == "fsync")
            results["topics"].setdefault(durability, {})[str(count)] = rates
            table.save(chosen.out, results)
            say(f"{durability}, {count} topics: {time.monotonic() - began_s:.0f} s")


def measure_priority(chosen: argparse.Namespace, results: table.Results) -> None:
    for system in chosen.system or ("kafka", "fairlane"):
        if system == "kafka":
            found = priority.on_kafka(install(say), chosen.runs)
        else:
            found = priority.on_fairlane(Settings(), chosen.runs, say)
        results["priority"][system] = found
        table.save(chosen.out, results)


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = table.load(chosen.out)
    if chosen.what != "table":
        results |= {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    try:
        if chosen.what == "topics":
            measure_topics(chosen, results)
        elif chosen.what == "priority":
            measure_priority(chosen, results)
    except FairlaneError as error:
        say(f"{error.cause} {error.next_step}".rstrip())
        return error.exit_code
    if results["topics"] and chosen.what != "priority":
        print(table.of_topics(results["topics"]))
    if results["priority"] and chosen.what != "topics":
        print(table.of_priority(results["priority"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
