"""Starts the missing servers of an estate in their order, waits until they are ready, and stops them."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.stack import distribution, java, launch, ports, processes, pulsar_server
from lab.stack.estate import shape as shapes
from lab.stack.estate.servers import EstateLaunch
from lab.stack.estate.shape import ZOOKEEPER, EstatePorts, EstateRequest, EstateShape, StoredEstate
from lab.stack.homes import Home
from lab.stack.launch import Progress, StackOptions
from lab.stack.state import EstateState, ServerState

STOP_S = {"broker": 20.0, "bookie": 20.0, ZOOKEEPER: 10.0}
"""Deadlines of SIGTERM, in the order in which the kinds are stopped: brokers close their ledgers first."""

Note = Callable[[EstateState], None]


class EstateStarter:
    """Starts what is missing of one estate."""

    def __init__(self, home: Home, cache: Path, env: Mapping[str, str], options: StackOptions) -> None:
        self._home = home
        self._cache = cache
        self._env = env
        self._options = options

    def start(self, asked: EstateRequest, before: EstateState | None, note: Note, progress: Progress) -> EstateState:
        """Start the servers that were asked for and do not run; `note` is called with the state after each start.

        Returns when all are ready. Raises a StackError, PortTaken or Refused.
        """
        shape, file = asked.shape, shapes.stored_estate(self._home)
        stored = file.load()
        shapes.refuse_fewer_bookies(stored, shape)
        running = {} if before is None else dict(before.servers)
        chosen = self._choose(stored, shape, running)
        kept = EstateShape(bookies=0, brokers=0) if stored is None else stored.shape
        file.save(StoredEstate(ports=chosen, shape=kept))
        site = self._site(asked, chosen, progress)
        state = EstateState(shape=shape, ports=chosen, servers=running)
        for names in ([ZOOKEEPER], shape.others()):
            for name in names:
                if name not in state.servers:
                    state = state.with_server(name, self._start_one(site, name, progress))
                    note(state)
            self._wait(site, state, names, progress)
            if names == [ZOOKEEPER]:
                site.write_metadata(self._env)
        file.save(StoredEstate(ports=chosen, shape=shape))
        return state

    def _site(self, asked: EstateRequest, chosen: EstatePorts, progress: Progress) -> EstateLaunch:
        return EstateLaunch(
            home=self._home,
            java=java.find(self._env),
            distribution=distribution.ensure(self._cache, self._env, progress),
            asked=asked,
            ports=chosen,
        )

    def _choose(
        self, stored: StoredEstate | None, shape: EstateShape, running: Mapping[str, ServerState]
    ) -> EstatePorts:
        """Return the ports: those of before where there were any, and the usual ones or the next free ones."""
        own = shapes.choose_own_ports(self._home) if stored is None else stored.ports
        if stored is not None:
            _require_own(stored, running)
        taken = {own.zookeeper, own.zookeeper_http, own.bookie, own.bookie_http}
        brokers, webs = list(own.brokers), list(own.webs)
        for index, name in enumerate(shape.broker_names()):
            if name in running:
                taken |= {brokers[index], webs[index]}
                continue
            for numbers, asked, usual in (
                (brokers, self._options.pulsar_port, self._options.usual.broker),
                (webs, self._options.pulsar_web_port, self._options.usual.web),
            ):
                port = _broker_port(numbers, index, asked, usual, taken)
                taken.add(port)
                numbers[index : index + 1] = [port]
        return own.model_copy(update={"brokers": tuple(brokers), "webs": tuple(webs)})

    def _start_one(self, site: EstateLaunch, name: str, progress: Progress) -> ServerState:
        numbers = site.ports.of(name)
        progress(f"starting {name} on {shapes.host_of(name)}, ports {' and '.join(map(str, numbers.values()))}")
        command = site.command(name)
        env = pulsar_server.environment(self._env)
        pid = processes.start_detached(command, site.directory(name), site.console(name), env)
        return launch.started(pid, name, distribution.VERSION, numbers, site.console(name))

    def _wait(self, site: EstateLaunch, state: EstateState, names: list[str], progress: Progress) -> None:
        progress(f"waiting for {', '.join(names)}")
        for name in names:
            logs = (site.console(name), site.logs(name) / "pulsar.log")
            launch.wait_ready(state.servers[name], site.readiness(name), logs, self._options.ready_timeout_s)


def _broker_port(numbers: list[int], index: int, asked: int | None, usual: int, taken: set[int]) -> int:
    """Return a port for one broker. A number that was asked for is that of the first broker."""
    if asked is not None and index == 0:
        return ports.require(asked, "the first broker")
    before = numbers[index : index + 1]
    return ports.choose(before[0] if before else usual, taken)


def _require_own(stored: StoredEstate, running: Mapping[str, ServerState]) -> None:
    """Raise PortTaken if a port that the data is bound to is in use by another program."""
    bound: list[int] = []
    if ZOOKEEPER not in running:
        bound += [stored.ports.zookeeper, stored.ports.zookeeper_http]
    if not any(name.startswith("bookie") for name in running):
        bound += [stored.ports.bookie, stored.ports.bookie_http]
    for port in bound:
        ports.require_bound(port, "estate")


def stop(servers: Mapping[str, ServerState], progress: Progress) -> None:
    """Stop servers: all brokers at once, then all bookies, then ZooKeeper."""
    for kind, deadline_s in STOP_S.items():
        named = {name: server for name, server in servers.items() if shapes.kind_of(name) == kind}
        if not named:
            continue
        progress(f"stopping {', '.join(named)}")
        with ThreadPoolExecutor(len(named), "stop") as pool:
            ends = pool.map(lambda server, s=deadline_s: processes.stop(server.pid, server.birth, s), named.values())
            for name, clean in zip(named, ends, strict=True):
                if not clean:
                    progress(f"{name} did not stop within {deadline_s:.0f} s and was killed; its data is safe on disk")
