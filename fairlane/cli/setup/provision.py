"""`fairlane provision`: prepare Pulsar."""

from typing import TYPE_CHECKING

import click

from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@output_option
@pass_settings
def provision(settings: "Settings", output: Output) -> None:
    """Create the tenant, namespaces, policies and topics in Pulsar. Prints the changes; safe to run again.

    Also sets what is configured under `estate`: copies, racks, brokers and bookies of the system namespace, offload.
    """
    from backends.pulsar.provision import provision as make_ready
    from fairlane.floors import PROVISION, loaded

    changed = list(make_ready(settings.pulsar))
    for step in PROVISION:
        changed += loaded(step)(settings.pulsar, settings.estate)
    if changed or output.as_json:
        output.emit({"changed": changed}, lambda: "\n".join(changed))
    say(f"{len(changed)} changes" if changed else "nothing to change")
