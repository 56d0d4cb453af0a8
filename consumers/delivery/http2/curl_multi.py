"""Drive libcurl's transfers from asyncio's event loop, through its multi-socket interface.

pycurl's AsyncCurlMulti does the same for a tenth more CPU: it schedules a callback of the event loop for each change
of libcurl's timer and for the end of each future, which makes 2.8 for a request. This one schedules hardly any.
"""

import asyncio
import selectors
import threading
from typing import Any

import pycurl

from consumers.delivery.http2.settings import ClientSettings

_POLLS = {
    pycurl.POLL_IN: selectors.EVENT_READ,
    pycurl.POLL_OUT: selectors.EVENT_WRITE,
    pycurl.POLL_INOUT: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
"""Events for which libcurl wants a socket to be watched. Otherwise it is not watched."""
_READY = {
    selectors.EVENT_READ: pycurl.CSELECT_IN,
    selectors.EVENT_WRITE: pycurl.CSELECT_OUT,
    selectors.EVENT_READ | selectors.EVENT_WRITE: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
}


class CurlMulti:
    """A set of connections and the transfers on them, on the event loop of its first transfer."""

    def __init__(self, settings: ClientSettings) -> None:
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, settings.connections)
        self._multi.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, settings.streams)
        self._multi.setopt(pycurl.M_MAXCONNECTS, settings.connections)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way: dict[Any, asyncio.Future[None]] = {}
        self._sockets: Any = selectors.DefaultSelector()
        """Not the loop's, which watches it as one file: over HTTP/1.1 a socket begins to be watched with each request,
        which costs 10 us in the loop's selector."""
        self._watched: dict[int, int] = {}
        self._due_s: float | None = None
        """When libcurl wants to be called, by the loop's clock; None: it does not."""
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._is_closing = False
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)

    def start(self, curl: Any) -> "asyncio.Future[None]":
        """Start a transfer. The result comes when it is complete; otherwise pycurl.error. A result that nobody waits
        for any more must be given to `drop`."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._sockets.fileno(), self._look)
        future: asyncio.Future[None] = self._loop.create_future()
        self._multi.add_handle(curl)
        self._under_way[curl] = future
        return future

    def drop(self, curl: Any) -> None:
        """End a transfer, if it is under way."""
        if self._under_way.pop(curl, None) is not None:
            self._multi.remove_handle(curl)

    @property
    def futures(self) -> "list[asyncio.Future[None]]":
        """The results of the transfers under way."""
        return list(self._under_way.values())

    def close(self) -> None:
        """End all transfers, whose results are cancelled, and all connections.

        libcurl ends in a thread: it waits for its resolvers, and the name of a provider may take half a minute to be
        found, or not.
        """
        if self._is_closing:
            return
        self._is_closing = True
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()
        for curl, future in list(self._under_way.items()):
            self.drop(curl)
            future.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._sockets.fileno())
        self._sockets.close()
        threading.Thread(target=self._multi.close, name="end of libcurl", daemon=True).start()

    # ------------------------------------------------------------- callbacks of libcurl
    def _watch(self, what: int, fd: int, _multi: object, _data: object) -> None:
        if self._is_closing:
            return
        events, watched = _POLLS.get(what, 0), self._watched
        if not events:
            if watched.pop(fd, 0):
                self._sockets.unregister(fd)
        elif fd not in watched:
            watched[fd] = events
            self._sockets.register(fd, events)
        elif events != watched[fd]:
            watched[fd] = events
            self._sockets.modify(fd, events)

    def _set_timer(self, timeout_ms: int) -> None:
        """Note when libcurl wants to be called. It may be called too early, so a timer is not moved to a later time."""
        if self._is_closing:
            return
        if timeout_ms == 0:  # not at once: libcurl is running
            if self._soon is None:
                self._soon = self._running_loop.call_soon(self._fire_soon)
        elif timeout_ms < 0:
            self._due_s = None
        else:
            self._due_s = self._running_loop.time() + timeout_ms / 1_000
            if self._timer is None or self._timer.when() > self._due_s:
                self._arm(self._due_s)

    def _arm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._running_loop.call_at(due_s, self._fire)

    # ------------------------------------------------------------- callbacks of the event loop
    def _look(self) -> None:
        """Let libcurl work on the sockets that are ready."""
        for key, events in self._sockets.select(0):
            if key.fd in self._watched:
                self._act(key.fd, _READY[events])
        self._pass_on()

    def _fire_soon(self) -> None:
        self._soon = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._pass_on()

    def _fire(self) -> None:
        self._timer = None
        due_s = self._due_s
        if due_s is None:
            return
        if self._running_loop.time() < due_s:
            self._arm(due_s)
            return
        self._due_s = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._pass_on()

    def _act(self, fd: int, events: int) -> None:
        if self._is_closing:
            return
        try:
            self._multi.socket_action(fd, events)
        except pycurl.error as error:  # it is in a bad state: no transfer will end
            for curl in list(self._under_way):
                self._end(curl, error)

    def _pass_on(self) -> None:
        """Pass on what has ended."""
        if self._is_closing:
            return
        _, complete, failed = self._multi.info_read()
        for curl in complete:
            self._end(curl, None)
        for curl, code, text in failed:
            self._end(curl, pycurl.error(code, text))

    def _end(self, curl: Any, error: Exception | None) -> None:
        future = self._under_way.pop(curl, None)
        if future is None:
            return
        self._multi.remove_handle(curl)
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None  # libcurl calls nothing before the first transfer
        return self._loop
