"""The id of a notification follows from the target's place in its task."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.apns import apns_id
from fairlane.fake.apns.checks import ID_FORM

Place = tuple[str, str, int, int]
TASKS, WRITERS = st.sampled_from(["a", "b"]), st.sampled_from(["0", "spark.1"])
PLACES = st.tuples(TASKS, WRITERS, st.integers(0, 9), st.integers(0, 499))


@given(PLACES, PLACES)
def test_a_place_has_one_id_and_two_places_have_two(one: Place, other: Place) -> None:
    assert (apns_id(*one) == apns_id(*other)) == (one == other)
    assert ID_FORM.fullmatch(apns_id(*one))
