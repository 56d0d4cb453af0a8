"""Options that the commands which move bundles share. Without what the commands need, so that help is quick."""

import click

at_once_option = click.option(
    "--at-once", type=click.IntRange(1, 64), default=4, help="Moves under way at the same time."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan and move nothing.")
