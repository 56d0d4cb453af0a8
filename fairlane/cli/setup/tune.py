"""`fairlane tune`; its command for clusters is a module of its own."""

from dataclasses import asdict

import click

from fairlane.cli.base.arguments import BYTE_SIZE
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option, say
from fairlane.floors import TUNE_CLUSTER
from producers.publish.tuning import FIXED, ProducerNeeds
from producers.publish.tuning import tune as tuned


@click.group(cls=CommandGroup, modules={"cluster": TUNE_CLUSTER})
def tune() -> None:
    """Recommended settings, each with its reason."""


@tune.command()
@click.option("--partitions", type=click.IntRange(1), default=1, help="Partitions of the topic.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=50_000.0, help="Messages per second.")
@click.option("--message-bytes", type=BYTE_SIZE, default="1000", help="Size of a typical message.")
@click.option("--memory", type=BYTE_SIZE, default="64MiB", help="Memory for unconfirmed messages.")
@click.option("--receiver-queue", type=click.IntRange(1), default=1_000, help="Messages that a consumer prefetches.")
@output_option
def producer(
    output: Output, partitions: int, rate: float, message_bytes: int, memory: int, receiver_queue: int
) -> None:
    """Recommend the settings of a Pulsar producer of your own (batching, queues), calculated as for Fairlane's
    producers.

    Sizes are bytes, or a number with kB, KiB, MB, MiB, GB or GiB.
    """
    tuning = tuned(ProducerNeeds(partitions, message_bytes, rate, memory, receiver_queue))
    settings: dict[str, dict[str, object]] = {
        name: {"value": getattr(tuning.settings, name), "reason": reason} for name, reason in tuning.reasons.items()
    }
    settings |= {name: {"value": value, "reason": reason} for name, (value, reason) in FIXED.items()}
    document = {"need": asdict(tuning.need), "settings": settings, "remarks": list(tuning.remarks)}
    output.emit_document(document, [{"setting": name, **chosen} for name, chosen in settings.items()])
    for remark in tuning.remarks:
        say(remark)
