"""`fairlane config`, `doctor`, `provision`, `tune`."""

import click

from fairlane.cli.base.arguments import BYTE_SIZE
from fairlane.cli.base.groups import Declared, Noun
from fairlane.cli.base.output import output_option
from fairlane.floors import TUNE_CLUSTER


@click.group(cls=Noun, handlers="fairlane.cli.handlers.config")
def config() -> None:
    """The settings and where they come from."""


@config.command()
@output_option
def show() -> None:
    """Print every setting with its value, its source and its meaning. Secrets are masked.

    Settings are read in this order; the first match wins: option, environment, TOML file, the local stack (from
    `stack up` to `stack down`), default.
    """


@click.command(cls=Declared, handlers="fairlane.cli.handlers.pulsar_setup")
@output_option
def doctor() -> None:
    """Check Java, Maven, Pulsar with every broker and bookie, Redis, the clock, workers and stuck tasks.

    Brokers and bookies are asked all at once, for at most 2 s each; one that does not answer is reported. Exits with 1
    if a check fails.
    """


@click.command(cls=Declared, handlers="fairlane.cli.handlers.pulsar_setup")
@output_option
def provision() -> None:
    """Create the tenant, namespaces, policies and topics in Pulsar. Prints the changes; safe to run again.

    Also sets what is configured under `estate`: copies, racks, brokers and bookies of the system namespace, offload.
    """


@click.group(cls=Noun, handlers="fairlane.cli.handlers.config", modules={"cluster": TUNE_CLUSTER})
def tune() -> None:
    """Recommended settings, each with its reason."""


@tune.command("producer")
@click.option("--partitions", type=click.IntRange(1), default=1, help="Partitions of the topic.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=50_000.0, help="Messages per second.")
@click.option("--message-bytes", type=BYTE_SIZE, default="1000", help="Size of a typical message.")
@click.option("--memory", type=BYTE_SIZE, default="64MiB", help="Memory for unconfirmed messages.")
@click.option("--receiver-queue", type=click.IntRange(1), default=1_000, help="Messages that a consumer prefetches.")
@output_option
def tune_producer() -> None:
    """Recommend the settings of a Pulsar producer of your own (batching, queues), calculated as for Fairlane's
    producers.

    Sizes are bytes, or a number with kB, KiB, MB, MiB, GB or GiB.
    """
