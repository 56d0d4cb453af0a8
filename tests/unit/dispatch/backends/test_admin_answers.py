"""Something other than Pulsar that answers at the REST address, such as a proxy's page."""

from collections.abc import Callable
from typing import Any

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.settings import PulsarSettings
from dispatcher.model.errors import Unreachable
from tests.unit.dispatch.backends.estate_site import serving

PAGE = "<html>Back soon</html>"
TOPIC = "persistent://t/n/a"


@pytest.mark.parametrize("answer", [PAGE, [1, "x", None], {"a": [1]}, ""])
@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("brokers", PulsarAdmin.brokers),
        ("clusters", PulsarAdmin.clusters),
        ("persistent/t/n/a/lastMessageId", lambda admin: admin.last_entry(TOPIC)),
        ("persistent/t/n/a/stats?getPreciseBacklog=true", lambda admin: admin.backlog(TOPIC)),
        ("persistent/t/n", lambda admin: admin.topics_and_partitions("t/n")),
    ],
)
def test_an_answer_that_is_not_pulsars_is_no_answer(path: str, ask: Callable[[PulsarAdmin], Any], answer: Any) -> None:
    with serving({path: answer}) as address:
        admin = PulsarAdmin(PulsarSettings(admin_url=f"http://{address}"))
        with pytest.raises(Unreachable, match="was answered with something that Pulsar does not say"):
            ask(admin)
        admin.close()


def test_an_empty_document_is_none() -> None:
    with serving({"bookies/racks-info": ""}) as address:
        admin = PulsarAdmin(PulsarSettings(admin_url=f"http://{address}"))
        assert admin.document("bookies/racks-info") is None
        admin.close()
