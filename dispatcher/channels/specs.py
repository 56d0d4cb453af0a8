"""The channels with a spec: what is sent on them is checked when it is submitted."""

from collections.abc import Mapping
from typing import Final

from dispatcher.channels.apns import ApnsSpec
from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.spec import ChannelSpec

SPECS: Final[Mapping[str, ChannelSpec]] = {"fcm": FcmSpec(), "apns": ApnsSpec()}
"""By the channel's name. Messages of all other channels have any form, and reach the channel as they are."""
