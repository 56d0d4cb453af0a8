"""Names of the parts that the upper floors (tables, estate, laboratory) add; each is imported when asked for.

Nothing else of `fairlane` knows them, so dispatch loads and runs without them.
"""

from importlib import import_module
from typing import Any

COMMANDS = {
    "stack": "lab.cli.stack:stack",
    "demo": "lab.cli.demo:demo",
    "fake": "lab.cli.fake:fake",
    "simulate": "lab.cli.simulate:simulate",
    "api": "web.cli.api:api",
    "estate": "estate.cli.estate:estate",
    "backlog": "spark_jobs.cli.backlog:backlog",
    "ingest": "spark_jobs.cli.ingest:ingest",
    "journal": "spark_jobs.cli.journal:journal",
    "reconcile": "spark_jobs.cli.reconcile:reconcile",
}
"""The commands."""
TUNE_CLUSTER = "estate.cli.tune_cluster:cluster"
"""A command of the group `tune`."""
FINDINGS = ("lab.stack.checks:local_findings", "estate.findings:estate_findings")
"""Findings of `doctor`: each takes the settings and yields findings; it raises no error that a finding can report."""
PROVISION = ("estate.facts.provision:provision_estate",)
"""Steps of `provision`: each takes the settings of Pulsar and of the estate, and returns the changes that it made."""


def loaded(name: str) -> Any:
    """Import a module and return what it has under a name. name: "module:name"."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
