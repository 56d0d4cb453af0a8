"""The canonical form of a target: one spelling for all addresses that are the same for the provider.

A target takes it once, where it is accepted. Everything behind compares texts.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

from dispatcher.channels.specs import SPECS

BLANKS: Final = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b"
    "\u200c\u200d\u200e\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
)
"""Characters removed around a target: white space, and those without a width that spreadsheets and web pages add."""


@dataclass(frozen=True, slots=True)
class AddressForm:
    """How the targets of a channel are spelled."""

    folds_case: bool = False
    """As in ChannelSpec."""

    def of(self, address: object) -> object:
        """Return the canonical form of a text or of an enum's text; anything else is returned as it is."""
        value = address.value if isinstance(address, Enum) else address
        if not isinstance(value, str):
            return address
        text = str.__str__(value).strip(BLANKS)  # the text itself, whatever a subclass makes of str()
        return text.lower() if self.folds_case else text


@cache
def address_form(channel: str) -> AddressForm:
    """Return the form of a channel's targets."""
    spec = SPECS.get(channel)
    return AddressForm(folds_case=spec is not None and spec.folds_case)
