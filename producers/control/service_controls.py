"""Live controls of the settings all tasks share: capacity, tiers, caps of channels and apps, admission limits."""

from collections.abc import Callable, Mapping, Sequence

from dispatcher.access.app_policy import AppPolicy
from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import KEPT_MS, FlowPause, PauseKind, confirmed, ended, flow_name
from dispatcher.model.pools import Cap, pools_of, quota_pool
from dispatcher.model.service_settings import POLICY, Setting

Put = Callable[[Sequence[Setting]], None]
Flows = Callable[[], Mapping[str, FlowPause]]
Weights = Callable[[], Mapping[str, float]]
MAX_PAUSE_S = KEPT_MS / 1000


class ServiceControls:
    """Changes the settings of the whole service.

    put: takes the changed settings. now_ms: returns Redis' time. flows: returns the last entry of each flow. weights:
    returns those of the tiers. All methods raise InvalidInput and the exceptions of these functions.
    """

    def __init__(self, put: Put, now_ms: Callable[[], int], flows: Flows = dict, weights: Weights = dict) -> None:
        self._put = put
        self._now_ms = now_ms
        self._flows = flows
        self._weights = weights

    def set_capacity(self, targets_per_s: int, burst: int = 0) -> None:
        """Set the targets/s of all workers together; 0: unlimited.

        burst: the number of targets sent at once; 0: a quarter of a second's worth.
        """
        self._set("capacity", Cap(targets_per_s, burst))

    def set_tiers(self, high: float | None = None, medium: float | None = None, low: float | None = None) -> None:
        """Set the weights of the tiers, 0.001 to 1,000 each. None: unchanged."""
        named = {"high": high, "medium": medium, "low": low}
        given = {tier: weight for tier, weight in named.items() if weight is not None}
        self._set("tiers", given if given.keys() == named.keys() else {**self._weights(), **given})

    def set_sharing(self, shared_by: str) -> None:
        """Set the unit that shares capacity within a tier: `tasks`, or `apps` and then the tasks of each app."""
        self._set("sharing", shared_by)

    def cap_channel(self, channel: str, cap: Cap) -> None:
        """Set the maximum targets/s of a channel over all tasks; Cap(0): no cap."""
        self._set("cap", cap, pools_of("", channel).channel)

    def cap_app(self, app: str, cap: Cap, channel: str | None = None) -> None:
        """Set the maximum targets/s of an app, over all channels or on one channel; Cap(0): no cap."""
        pools = pools_of(app, channel or "")
        self._set("cap", cap, pools.app if channel is None else pools.app_channel)

    def cap_quota(self, group: str, cap: Cap, unit: str = "target") -> None:
        """Set the maximum rate of a quota group over all its apps and channels; Cap(0): no cap. unit: `target`, or
        `request` for providers that count requests with any number of targets.

        The provider sees no more of it in any minute, and at most a twentieth more in any second. After a minute of
        rest it begins at a sixtieth and reaches the cap within a minute.
        """
        self._put([Setting.of("quota_unit", unit, group), Setting.of("cap", cap, quota_pool(group))])

    def join_quota(self, group: str, channel: str, app: str) -> None:
        """Count what an app sends on a channel to a quota group, such as several apps of one FCM project."""
        if not group:  # it would leave its group, and send without its cap
            raise InvalidInput("group: is empty.", "Name a quota group, or use leave_quota.")
        self._set("quota", group, flow_name(channel, app))

    def leave_quota(self, channel: str, app: str) -> None:
        """Count what an app sends on a channel to no quota group."""
        self._set("quota", "", flow_name(channel, app))

    def pause_channel(self, channel: str, *, paused: bool) -> None:
        """Pause or resume a channel. Nothing is sent while it is paused; targets in flight are not called back."""
        self._set("channel_paused", paused, channel)

    def pause_flow(self, channel: str, app: str, for_s: float | None = None, reason: str = "") -> None:
        """Pause one app on a channel, for some seconds or (None) until `resume_flow`. Nothing of it is sent meanwhile,
        and no target uses a try; requests under way are not called back."""
        if for_s is not None and not 0 < for_s <= MAX_PAUSE_S:
            raise InvalidInput(
                f"for: is {for_s:g} seconds; a pause with an end lasts up to {MAX_PAUSE_S / 86_400:g} days."
            )
        now_ms = self._now_ms()
        until_ms = 0 if for_s is None else now_ms + round(for_s * 1000)
        entry = FlowPause(kind=PauseKind.HAND, since_ms=now_ms, until_ms=until_ms, reason=reason)
        self._set_flow(channel, app, entry)

    def resume_flow(self, channel: str, app: str, *, confirm_dead: bool = False) -> None:
        """End the pause of one app on a channel, whatever its kind.

        confirm_dead: also, for a day, dead targets count as dead however many they are. Otherwise they would
        pause the app again.
        """
        make = confirmed if confirm_dead else ended
        self._set_flow(channel, app, make(self._now_ms(), "resumed by an operator"))

    def weigh_app(self, app: str, weight: float) -> None:
        """Set an app's weight among the apps of a tier, 0.001 to 1,000, used where apps share capacity."""
        self._set("app_weight", weight, app)

    def limit_app(self, app: str, tasks: int | None = None, targets: int | None = None) -> None:
        """Set the maximum number of live tasks and of queued targets of an app, applied at its next submission.

        0: any number; None: unchanged. app `*`: every app that has no limit of its own.
        """
        limits = {"limit:tasks": tasks, "limit:targets": targets}
        given = [Setting.of(kind, number, app) for kind, number in limits.items() if number is not None]
        if not given:
            raise InvalidInput("limit: name a number of tasks, of targets, or both.")
        self._put(given)

    def set_policy(self, app: str, policy: AppPolicy) -> None:
        """Set the bounds of what an app's keys may ask for."""
        self._set(POLICY, policy, app)

    def _set_flow(self, channel: str, app: str, entry: FlowPause) -> None:
        flow = flow_name(channel, app)
        self._set("flow_paused", entry.after(self._flows().get(flow)), flow)

    def _set(self, kind: str, value: object, name: str = "") -> None:
        self._put([Setting.of(kind, value, name)])
