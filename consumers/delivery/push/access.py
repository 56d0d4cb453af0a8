"""The access of one app to its provider: the credential, the proof made from it, and the connections."""

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from consumers.delivery.push.connections import Connections
from consumers.delivery.push.credentials import Credential, CredentialSource
from consumers.delivery.push.provider import Authorization, Provider
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, InvalidInput

CHECKED_EVERY_S = 1.0
"""How often the credential's source is looked at while calls are made."""
RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Delays after proofs that could not be made. A new credential is tried at once."""
RENEWED_EVERY_S = 10.0
"""How often a refused proof is renewed if that fails."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)  # it would show the proof
class Access:
    """The parts that requests need. A call keeps its access to the end, also when the app has a new one."""

    credential: Credential
    connections: Connections
    authorization: Authorization


def check_headers(authorization: Authorization) -> None:
    """Raise InvalidInput for a proof that no request can carry: otherwise each target would fail for it."""
    for name, value in authorization.headers:
        if not value.isprintable():
            raise InvalidInput(
                f"The header {name} would hold a control character.",
                "Correct the app's credential and settings, such as its topic.",
            )


@dataclass(eq=False, repr=False)
class AppAccess:
    """The current access of one app. A new credential replaces the old one only if a proof can be made from it."""

    provider: Provider
    source: CredentialSource
    connect: Callable[[Credential], Connections]
    clock: Clock
    threads: Executor
    """Has a thread for each app: a source or an issuer may hang. The event loop's own has few."""
    renewed: Callable[[str], None] = lambda _version: None
    """Called with the version of each credential that comes into use."""
    _access: Access | None = None
    _looking: asyncio.Task[None] | None = None
    _looked_s: float = -math.inf
    _failure: FairlaneError | None = None
    _failed_version: str = ""
    _failures: int = 0
    _retry_s: float = -math.inf
    _renewed_s: float = -math.inf

    @property
    def version(self) -> str:
        """Version of the credential in use or last tried; empty before the first."""
        return self._access.credential.version if self._access is not None else self._failed_version

    async def current(self) -> Access:
        """Return the access. Raises the reason why there is none."""
        now_s = self.clock.monotonic_s()
        access = self._access
        is_over = access is None or access.authorization.is_over(self._wall_s())
        if now_s >= self._looked_s + CHECKED_EVERY_S:
            look = self._look()
            if is_over:
                await asyncio.shield(look)
        elif is_over:
            await self.settled()
        access = self._access
        if access is None or access.authorization.is_over(self._wall_s()):
            raise self._failure or InvalidInput("There is no proof for this app.", "See the log.")
        return access

    async def renew(self, refused: Access) -> Access:
        """Make a new proof, since the provider has refused one; once for all requests that it refused."""
        await self.settled()
        now_s = self.clock.monotonic_s()
        if self._access is refused and now_s >= self._renewed_s + RENEWED_EVERY_S:
            self._renewed_s = now_s
            self._look(renew=True)
        await self.settled()  # another refused request may have begun to renew it just now
        return await self.current()

    def look(self) -> None:
        """Look at the source in the background, unless that was done just now."""
        if self.clock.monotonic_s() >= self._looked_s + CHECKED_EVERY_S:
            self._look()

    async def settled(self) -> None:
        """Wait for a look at the source that is under way."""
        if self._looking is not None:
            await asyncio.shield(self._looking)

    async def close(self) -> None:
        """Close the connections."""
        if self._looking is not None:
            self._looking.cancel()
        if self._access is not None:
            await self._access.connections.close()

    def _wall_s(self) -> float:
        return self.clock.wall_ms() / 1000

    def _look(self, *, renew: bool = False) -> asyncio.Task[None]:
        """Start to look at the source, unless that is under way."""
        if self._looking is None:
            self._looked_s = self.clock.monotonic_s()
            self._looking = asyncio.get_running_loop().create_task(self._update(renew=renew))
        return self._looking

    async def _update(self, *, renew: bool) -> None:
        try:
            credential = await asyncio.get_running_loop().run_in_executor(self.threads, self.source.current)
            if self._needs_proof(credential) or renew:
                await self._replace(credential)
        except FairlaneError as error:
            self._note(error)
        except Exception as error:
            _log.exception("The credential of an app cannot be looked at")
            self._note(InvalidInput(f"The credential cannot be used: {type(error).__name__}.", "See the worker's log."))
        finally:
            self._looking = None

    def _needs_proof(self, credential: Credential) -> bool:
        is_failed = self._failed_version == credential.version
        if is_failed and self.clock.monotonic_s() < self._retry_s:
            return False
        access = self._access
        is_new = access is None or access.credential.version != credential.version
        return is_new or (access is not None and access.authorization.is_due(self._wall_s()))

    async def _replace(self, credential: Credential) -> None:
        self._failed_version = credential.version
        """Until it has succeeded."""
        before = self._access
        loop, authorize = asyncio.get_running_loop(), self.provider.authorize
        authorization = await loop.run_in_executor(self.threads, authorize, credential, self._wall_s())
        check_headers(authorization)
        if before is not None and before.credential is credential:
            self._access = Access(credential, before.connections, authorization)
        else:
            self._access = Access(credential, self.connect(credential), authorization)
            if before is not None:
                before.connections.retire()
            self.renewed(credential.version)
        self._failure, self._failed_version, self._failures = None, "", 0

    def _note(self, error: FairlaneError) -> None:
        delay_s = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        self._retry_s = self.clock.monotonic_s() + delay_s
        if str(self._failure) != str(error):
            still = "" if self._access is None else " The previous access stays in use until it ends."
            _log.warning("%s%s", error, still)
        self._failure = error
