"""The table of everything that a principal may ask of the service. Routes, OpenAPI and the reference are made of it."""

from typing import NamedTuple

from dispatcher.access.principal import Scope


class Action(NamedTuple):
    """One thing that a principal may ask for."""

    scope: Scope
    """The right that it needs."""
    text: str
    """Its effect, in a sentence for the reference."""
    in_app: bool = True
    """Whether a principal of one app may ask for it, for its own objects."""
    is_audited: bool = False
    """Whether the audit has an entry of it."""

    @property
    def is_change(self) -> bool:
        """Whether it changes anything."""
        return self.is_audited or self.scope is Scope.SUBMIT


_READ, _CONTROL, _OPERATOR = Scope.READ, Scope.CONTROL, Scope.OPERATOR

ACTIONS: dict[str, Action] = {
    "tasks.submit": Action(Scope.SUBMIT, "Submit a task with its audience, or continue or verify a submission."),
    "tasks.preview": Action(Scope.SUBMIT, "Return the requests that would leave for some targets. Nothing is stored."),
    "tasks.list": Action(_READ, "List tasks, filtered and sorted."),
    "tasks.show": Action(_READ, "Return a task in its current state."),
    "tasks.set": Action(_CONTROL, "Change a task's weight, tier, cap, pause or message.", is_audited=True),
    "tasks.cancel": Action(_CONTROL, "Cancel a task: unsent targets are not sent.", is_audited=True),
    "tasks.why": Action(_READ, "Return where a task's time went."),
    "tasks.failures": Action(_READ, "Return a task's failed targets by reason, or each of them."),
    "tasks.outcomes": Action(_READ, "Return the final outcomes of a task's targets so far."),
    "tasks.events": Action(_READ, "Follow tasks: an event for each change."),
    "tasks.change": Action(_CONTROL, "Change all live tasks that a filter selects, or preview it.", is_audited=True),
    "letters.list": Action(_READ, "List dead letters by task and reason."),
    "letters.replay": Action(_CONTROL, "Send dead letters again, as new tasks.", is_audited=True),
    "letters.drop": Action(_CONTROL, "Mark dead letters as not needed any more.", is_audited=True),
    "invalid.list": Action(_READ, "List the targets that providers called invalid."),
    "service.show": Action(_OPERATOR, "Return the settings of the whole service.", in_app=False),
    "service.set": Action(_OPERATOR, "Change capacity, tier weights or sharing.", in_app=False, is_audited=True),
    "channel.show": Action(_OPERATOR, "Return the settings of a channel.", in_app=False),
    "channel.set": Action(_OPERATOR, "Cap, pause or resume a channel.", in_app=False, is_audited=True),
    "app.show": Action(_OPERATOR, "Return an app's settings, policy and use.", in_app=False),
    "app.set": Action(_OPERATOR, "Change an app's cap, weight, limits or policy.", in_app=False, is_audited=True),
    "workers.list": Action(_OPERATOR, "List the live workers.", in_app=False),
    "signals.show": Action(_OPERATOR, "Return rate, backlog and delays of the service.", in_app=False),
    "keys.list": Action(_OPERATOR, "List keys, without their secrets.", in_app=False),
    "keys.create": Action(_OPERATOR, "Create a key; its secret is shown once.", in_app=False, is_audited=True),
    "keys.revoke": Action(_OPERATOR, "Revoke a key. It is refused within a second.", in_app=False, is_audited=True),
    "audit.list": Action(_OPERATOR, "List the changes made by people and keys.", in_app=False),
}
"""Actions by name."""
