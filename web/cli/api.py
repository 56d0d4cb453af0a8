"""`fairlane api`: serve the HTTP API."""

from functools import partial
from pathlib import Path

import click

from backends.extras import require_packages
from fairlane.cli.base.groups import Declared

_PORT = click.IntRange(0, 65_535)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    cls=Declared, handlers="web.cli.handlers.api", requires=partial(require_packages, "web", "aiohttp", "jinja2")
)
@click.option("--host", default="127.0.0.1", help="Address to serve on. Others than loopback need TLS or a proxy.")
@click.option("--port", type=_PORT, default=8480, help="Port to serve on; 0: any free one.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, help="Number of processes that share the port.")
@click.option(
    "--unix-socket", type=click.Path(path_type=Path), help="Serve on this Unix socket instead of an address and port."
)
@click.option("--tls-certificate", "certificate", type=_FILE, help="PEM file of the certificate, with its chain.")
@click.option("--tls-key", "private_key", type=_FILE, help="PEM file of the certificate's private key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of the server speaks TLS.")
@click.option("--user-header", default="", metavar="NAME", help="Header in which a proxy names the console's user.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name by which clients call it.")
@click.option("--metrics-host", default="127.0.0.1", help="Address to serve Prometheus metrics on.")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65_535),
    default=0,
    help="Port of Prometheus metrics (further processes take the next ones); 0: any free one, -1: none.",
)
def api() -> None:
    """Serve the HTTP API (docs/how-to/http.md) and the console (docs/console.md) until SIGTERM or SIGINT.

    Every request needs a key: `fairlane key create`. On the local stack a link to the console is printed. On SIGTERM
    /readyz answers 503, and open requests have 20 s to end.
    """
