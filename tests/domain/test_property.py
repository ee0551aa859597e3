"""A session behaves like the plain model of it; `MUSTER_SEED` repeats one life."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.domain.lives import live

LIVES = 2_000
BATCHES = 20


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_session_behaves_like_the_plain_model_of_it_whatever_happens(batch: int) -> None:
    only = os.environ.get("MUSTER_SEED")
    size = LIVES // BATCHES
    for seed in [int(only)] if only else range(batch * size, (batch + 1) * size):
        live(seed)


def test_the_random_lives_see_every_kind_of_thing() -> None:
    """A life that never leaves the first room would compare nothing."""
    statuses: Counter[str] = Counter()
    questions: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    closed = gone = 0
    for seed in range(150):
        life = live(seed)
        statuses.update(life.model.turns.values())
        questions.update(each["status"] for each in life.model.questions.values())
        changes.update(each.type for each in life.sent)
        closed += life.model.closing is not None
        gone += life.model.gone
    assert {"completed", "failed", "cancelled", "superseded", "queued"} <= set(statuses)
    assert {"pending", "resolving", "answered", "stale"} <= set(questions)
    assert len(changes) == 11
    assert closed > 5
    assert gone > 5
