"""Settings every test shares: the hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The same examples on every run and every machine; a first call may compile, so no deadline.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples on every run: THETASTREAM_HYPOTHESIS=explore make test ARGS="-k oracle"
settings.register_profile(
    "explore",
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("THETASTREAM_HYPOTHESIS", "ci"))
