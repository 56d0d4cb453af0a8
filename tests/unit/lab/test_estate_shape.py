"""An estate of the local stack without its servers: shapes, ports, and the addresses that are in force."""

from pathlib import Path

import pytest

from dispatcher.model.errors import Refused
from fairlane.settings import Settings
from lab.stack import state
from lab.stack.errors import AlreadyRunning, StackError
from lab.stack.estate import shape as shapes
from lab.stack.estate.shape import EstatePorts, EstateRequest, EstateShape, StoredEstate, host_of
from lab.stack.homes import Home
from lab.stack.launch import StackOptions
from lab.stack.stack import LocalStack
from lab.stack.state import EstateState, StackPorts, StackState
from tests.unit.lab.test_addresses_in_force import server

PORTS = EstatePorts(
    zookeeper=1, zookeeper_http=2, bookie=3, bookie_http=4, brokers=(10, 11), webs=(20, 21)
)  # fmt: skip
SHAPE = EstateShape(bookies=3, brokers=2)


def stored(home: Path, dead: tuple[str, ...] = ()) -> StackState:
    """Store the state of an estate that was up, with some servers dead."""
    servers = {name: server(alive=name not in dead) for name in SHAPE.names()}
    whole = StackState(
        estate=EstateState(shape=SHAPE, ports=PORTS, servers=servers),
        redis=server(alive=True),
        ready=True,
        ports=StackPorts(broker=10, web=20, redis=5),
    )
    Home(home).make()
    state.save(Home(home).state_file, whole)
    return whole


def test_its_addresses_are_the_settings(tmp_path: Path) -> None:
    stored(tmp_path)
    settings = Settings(home=tmp_path)
    assert settings.pulsar.url == "pulsar://127.0.0.1:10,127.0.0.1:11"
    assert settings.pulsar.admin_url == "http://127.0.0.1:20"
    assert settings.estate.bookie_http == "http://{host}:4"
    assert settings.estate.brokers == 2


def test_rest_goes_to_a_broker_that_runs(tmp_path: Path) -> None:
    stored(tmp_path, dead=("broker-1",))
    assert Settings(home=tmp_path).pulsar.admin_address == "http://127.0.0.1:21"
    status = LocalStack(tmp_path).status()
    assert not status.running
    assert [name for name, one in status.servers.items() if not one["running"]] == ["broker-1"]


def test_every_bookie_has_an_address_of_its_own() -> None:
    hosts = [host_of(name) for name in EstateShape(bookies=9, brokers=1).bookie_names()]
    assert len(set(hosts)) == 9
    assert "127.0.0.1" not in hosts


@pytest.mark.parametrize("asked", [EstateShape(bookies=2, brokers=2), EstateShape(bookies=3, brokers=1)])
def test_it_never_shrinks_while_it_runs(tmp_path: Path, asked: EstateShape) -> None:
    stored(tmp_path)
    with pytest.raises(AlreadyRunning, match="3 bookies and 2 brokers"):
        LocalStack(tmp_path, StackOptions(estate=EstateRequest(asked))).up()


def test_a_standalone_server_that_runs_is_not_replaced(tmp_path: Path) -> None:
    Home(tmp_path).make()
    state.save(Home(tmp_path).state_file, StackState(pulsar=server(alive=True), redis=server(alive=True)))
    with pytest.raises(AlreadyRunning, match="standalone"):
        LocalStack(tmp_path, StackOptions(estate=EstateRequest(SHAPE))).up()


def test_data_on_three_bookies_is_not_started_with_two(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    file = shapes.stored_estate(home)
    assert file.load() is None
    file.save(StoredEstate(ports=PORTS, shape=SHAPE))
    shapes.refuse_fewer_bookies(file.load(), EstateShape(bookies=4, brokers=1))
    with pytest.raises(Refused, match="spread over 3 bookies"):
        shapes.refuse_fewer_bookies(file.load(), EstateShape(bookies=2, brokers=2))


@pytest.mark.parametrize("content", ["", "{", "null", '{"ports": {}, "shape": {}}'])
def test_a_file_of_ports_that_is_damaged_says_so(tmp_path: Path, content: str) -> None:
    Home(tmp_path).make()
    (Home(tmp_path).estate / "estate.json").write_text(content)
    with pytest.raises(StackError, match="cannot be read"):
        shapes.stored_estate(Home(tmp_path)).load()


def test_two_homes_look_for_ports_at_different_places(tmp_path: Path) -> None:
    one, other = (shapes.choose_own_ports(Home(tmp_path / name)) for name in ("a", "b"))
    assert len({one.zookeeper, one.bookie, one.bookie_http, other.zookeeper, other.bookie, other.bookie_http}) == 6
