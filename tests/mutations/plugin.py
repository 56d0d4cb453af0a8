"""For pytest, in a run over a mutation: examples are the same in every run, and the first that fails is enough."""

import hypothesis

hypothesis.settings.register_profile(
    "mutations", deadline=None, derandomize=True, phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate)
)
