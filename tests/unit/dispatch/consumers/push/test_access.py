"""The access of an app over time: proofs are renewed once, clocks may jump, and what fails does not end what works."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from consumers.delivery.push import access
from consumers.delivery.push.access import RETRY_S, AppAccess
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.provider import Authorization
from dispatcher.model.errors import InvalidInput, Unreachable
from tests.virtual_clock import VirtualClock

LIFETIME_S, RENEW_BEFORE_S = 3_600.0, 300.0


class Jumping(VirtualClock):
    """A clock whose wall time can be set."""

    def set_wall(self, seconds: float) -> None:
        self._wall_ms += seconds * 1000


class Connections:
    def __init__(self) -> None:
        self.retired = False

    def retire(self) -> None:
        self.retired = True

    async def close(self) -> None: ...


class World:
    """A source, an issuer, and the access that uses them."""

    def __init__(self) -> None:
        self.clock = Jumping()
        self.secret = b"one"
        self.credential = Credential(self.secret)
        self.broken: set[bytes] = set()
        self.is_up = True
        self.proofs: list[str] = []
        self.connections: list[Connections] = []
        self.renewed: list[str] = []
        self.access = AppAccess(
            provider=self,  # type: ignore[arg-type]
            source=self,  # type: ignore[arg-type]
            connect=self._connect,
            clock=self.clock,
            threads=ThreadPoolExecutor(1),
            renewed=self.renewed.append,
        )

    def current(self) -> Credential:
        """As a CredentialSource does."""
        if self.credential.secret != self.secret:
            self.credential = Credential(self.secret)
        return self.credential

    def authorize(self, credential: Credential, wall_s: float) -> Authorization:
        if credential.secret in self.broken:
            raise InvalidInput("The credential does not work.", "Replace it.")
        if not self.is_up:
            raise Unreachable("The issuer is down.", "Wait.")
        self.proofs.append(credential.version)
        return Authorization(
            url="",
            headers=(("n", str(len(self.proofs))),),
            version=credential.version,
            from_s=wall_s - 1,
            renew_s=wall_s + LIFETIME_S - RENEW_BEFORE_S,
            ends_s=wall_s + LIFETIME_S,
        )

    def _connect(self, _: Credential) -> Any:
        self.connections.append(Connections())
        return self.connections[-1]

    async def number(self) -> str:
        """Return the proof in use, after a look in the background has ended."""
        await self.access.current()
        await self.access.settled()
        return (await self.access.current()).authorization.headers[0][1]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_proof_is_made_once_and_again_before_it_ends(world: World) -> None:
    assert await world.number() == "1"
    world.clock.advance(LIFETIME_S - RENEW_BEFORE_S - 10)
    assert await world.number() == "1"
    world.clock.advance(11)
    assert await world.number() == "2"
    assert len(world.connections) == 1  # the credential is the same


@pytest.mark.parametrize("jump_s", [2 * LIFETIME_S, -2 * LIFETIME_S, 86_400.0 * 365])
async def test_a_clock_that_jumps_makes_a_new_proof(world: World, jump_s: float) -> None:
    assert await world.number() == "1"
    world.clock.set_wall(jump_s)
    world.clock.advance(1.5)
    assert await world.number() == "2"


async def test_an_issuer_that_is_down_is_felt_when_the_proof_ends(world: World) -> None:
    await world.number()
    world.is_up = False
    world.clock.advance(LIFETIME_S - 100)
    assert await world.number() == "1"
    world.clock.advance(200)
    with pytest.raises(Unreachable, match="issuer is down"):
        await world.number()
    world.is_up = True
    world.clock.advance(60)
    assert await world.number() == "2"


async def test_a_new_credential_replaces_the_old_one_if_it_works(world: World) -> None:
    old = await world.access.current()
    world.secret = b"broken"
    world.broken.add(b"broken")
    world.clock.advance(2)
    assert await world.number() == "1"
    assert [one.retired for one in world.connections] == [False]
    world.secret = b"two"
    world.clock.advance(2)
    assert await world.number() == "2"
    assert [one.retired for one in world.connections] == [True, False]
    assert world.renewed == [old.credential.version, Credential(b"two").version]


async def test_a_broken_credential_is_not_tried_at_each_call(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "RETRY_S", RETRY_S)
    tried: list[bytes] = []
    authorize = world.authorize

    def counted(credential: Credential, wall_s: float) -> Authorization:
        tried.append(credential.secret)
        return authorize(credential, wall_s)

    world.authorize = counted  # type: ignore[method-assign]
    world.broken.add(b"one")
    for _ in range(100):
        with pytest.raises(InvalidInput, match="does not work"):
            await world.access.current()
        world.clock.advance(0.5)
    assert len(tried) < 15
    world.secret = b"two"
    world.clock.advance(1.5)
    assert await world.number() == "1"  # a new one is tried at once


async def test_a_refused_proof_is_renewed_once_for_all_requests(world: World) -> None:
    refused = await world.access.current()
    renewed = await asyncio.gather(*(world.access.renew(refused) for _ in range(100)))
    assert len(world.proofs) == 2
    assert {one.authorization.headers for one in renewed} == {(("n", "2"),)}


async def test_a_proof_that_is_refused_during_a_look_is_renewed_for_all_requests(world: World) -> None:
    refused = await world.access.current()
    world.clock.advance(access.CHECKED_EVERY_S)
    world.access.look()
    renewed = await asyncio.gather(*(world.access.renew(refused) for _ in range(3)))
    assert [one.authorization.headers[0][1] for one in renewed] == ["2"] * 3


async def test_a_renewal_that_fails_is_not_repeated_by_each_request(world: World) -> None:
    refused = await world.access.current()
    world.is_up = False
    again = await asyncio.gather(*(world.access.renew(refused) for _ in range(100)))
    assert all(one is refused for one in again)
    world.is_up = True
    assert await world.access.renew(refused) is refused  # not so soon
    world.clock.advance(11)
    assert await world.access.renew(refused) is not refused
