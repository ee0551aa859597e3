"""One summary for each session: what may replace what, and how lists page."""

from __future__ import annotations

import pytest

from muster.domain.control import MusterStatus
from muster.domain.creation import CreateCommand, CreateSpec, CreationReceipt, first_document
from muster.domain.errors import InvalidInput
from muster.domain.runtime import Verifier
from muster.domain.session_document import Broker, SessionDocument
from muster.domain.summaries import (
    SessionSummary,
    SummaryOrder,
    SummaryQuery,
    summary_of,
    summary_of_uncertain_creation,
)
from muster.domain.view import view_of
from muster.stores.documents.connection import Mongo
from muster.stores.documents.sessions import SessionSummaries
from tests.stores.documents.builders import NAMESPACE, at, summary

VERIFIER = Verifier(key_id="a" * 64, public_key="AAAA")


@pytest.fixture
def summaries(mongo: Mongo) -> SessionSummaries:
    return SessionSummaries(mongo)


async def stored(summaries: SessionSummaries, session_id: str = "s-1") -> SessionSummary:
    found = await summaries.get(NAMESPACE, session_id)
    assert found is not None
    return found


async def test_a_summary_reads_back_as_it_was_written(summaries: SessionSummaries) -> None:
    assert await summaries.write(summary(revision=3))
    assert await stored(summaries) == summary(revision=3)


async def test_a_later_revision_replaces_an_earlier_one(summaries: SessionSummaries) -> None:
    await summaries.write(summary(revision=3))
    assert await summaries.write(summary(revision=4, status=MusterStatus.WORKING))
    assert (await stored(summaries)).status is MusterStatus.WORKING


async def test_a_late_write_of_an_earlier_revision_changes_nothing(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=4))
    assert not await summaries.write(summary(revision=3, title="late"))
    assert await stored(summaries) == summary(revision=4)


async def test_a_write_repeated_after_a_lost_answer_hears_that_it_is_stored(
    summaries: SessionSummaries,
) -> None:
    assert await summaries.write(summary(revision=4))
    assert await summaries.write(summary(revision=4))


async def test_a_closed_session_stays_closed_whatever_arrives_late(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=4))
    assert await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    assert not await summaries.write(summary(revision=5))
    assert not await summaries.mark_close_uncertain(NAMESPACE, "s-1", "inc-a", "no answer")
    assert not await summaries.mark_needs_repair(NAMESPACE, "s-1", "torn", at(10))
    kept = await stored(summaries)
    assert (kept.status, kept.closed_at) == (MusterStatus.DONE, at(9))


async def test_closing_again_keeps_the_first_time(summaries: SessionSummaries) -> None:
    await summaries.write(summary())
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    assert await summaries.close(NAMESPACE, "s-1", "inc-a", at(20))
    assert (await stored(summaries)).closed_at == at(9)


async def test_closing_another_incarnation_changes_nothing(summaries: SessionSummaries) -> None:
    await summaries.write(summary())
    assert not await summaries.close(NAMESPACE, "s-1", "inc-b", at(9))
    assert await stored(summaries) == summary()


async def test_a_closed_session_lives_again_under_another_incarnation_even_if_a_clock_went_back(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=9, created_at=at(30)))
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(31))
    again = summary(incarnation="inc-b", generation=0, created_at=at(10))
    assert await summaries.write(again)
    assert await stored(summaries) == again


async def test_an_incarnation_that_was_replaced_never_comes_back(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=3))
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    await summaries.write(summary(incarnation="inc-b", created_at=at(10)))
    await summaries.close(NAMESPACE, "s-1", "inc-b", at(20))
    late = summary(revision=50, generation=9, created_at=at(59))
    assert not await summaries.write(late)
    assert (await stored(summaries)).incarnation == "inc-b"


@pytest.mark.parametrize(
    ("generation", "created", "wins"),
    [(2, 0, True), (1, 1, True), (1, 0, False), (0, 5, False)],
    ids=["next generation", "created later", "created together", "earlier generation"],
)
async def test_an_open_session_yields_only_to_a_later_incarnation(
    summaries: SessionSummaries, generation: int, created: int, wins: bool
) -> None:
    await summaries.write(summary(revision=8))
    other = summary(incarnation="inc-b", generation=generation, created_at=at(created))
    assert await summaries.write(other) is wins
    assert (await stored(summaries)).incarnation == ("inc-b" if wins else "inc-a")


def receipt(minute: int, session_id: str = "s-1") -> CreationReceipt:
    spec = CreateSpec(cwd="/srv/repository", title="unsure", session_id=session_id)
    command = CreateCommand(namespace_id=NAMESPACE, key_digest="c" * 64, spec=spec)
    return CreationReceipt(
        namespace_id=NAMESPACE,
        key_digest=command.key_digest,
        request_digest=command.request_digest,
        tool="start",
        request=spec,
        remote_create_key=command.remote_create_key,
        session_id=session_id,
        sidecar_verifier=VERIFIER,
        created_at=at(minute),
    )


async def test_an_uncertain_creation_is_listed_until_its_document_comes(
    summaries: SessionSummaries,
) -> None:
    uncertain = summary_of_uncertain_creation(receipt(5), "the launch got no answer")
    assert await summaries.mark_uncertain(uncertain)
    page = await summaries.list(SummaryQuery(statuses=(MusterStatus.UNCERTAIN,)))
    assert page.summaries == (uncertain,)
    assert await summaries.write(summary(created_at=at(5)))
    assert await stored(summaries) == summary(created_at=at(5))


async def test_a_late_mark_of_a_creation_changes_neither_its_session_nor_the_closed_one(
    summaries: SessionSummaries,
) -> None:
    uncertain = summary_of_uncertain_creation(receipt(5), "the launch got no answer")
    await summaries.write(summary(created_at=at(6)))
    assert not await summaries.mark_uncertain(uncertain)
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    assert not await summaries.mark_uncertain(uncertain)
    assert (await stored(summaries)).status is MusterStatus.DONE


async def test_a_creation_given_up_stays_given_up(summaries: SessionSummaries) -> None:
    uncertain = summary_of_uncertain_creation(receipt(5), "the launch got no answer")
    await summaries.mark_uncertain(uncertain)
    assert await summaries.close(NAMESPACE, "s-1", None, at(9), MusterStatus.FAILED)
    assert not await summaries.mark_uncertain(uncertain)
    kept = await stored(summaries)
    assert (kept.status, kept.uncertain) == (MusterStatus.FAILED, None)


async def test_a_new_creation_after_the_close_may_be_uncertain(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary())
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    assert await summaries.mark_uncertain(summary_of_uncertain_creation(receipt(10), "no answer"))
    assert not await summaries.write(summary(revision=7))
    assert (await stored(summaries)).status is MusterStatus.UNCERTAIN


async def test_an_uncertain_close_ends_with_the_close(summaries: SessionSummaries) -> None:
    await summaries.write(summary())
    assert await summaries.mark_close_uncertain(NAMESPACE, "s-1", "inc-a", "no answer")
    assert (await stored(summaries)).uncertain == "no answer"
    await summaries.close(NAMESPACE, "s-1", "inc-a", at(9))
    kept = await stored(summaries)
    assert (kept.status, kept.uncertain) == (MusterStatus.DONE, None)


async def test_a_mark_for_repair_stays_until_the_next_document(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=3))
    assert await summaries.mark_needs_repair(NAMESPACE, "s-1", "torn", at(4))
    assert not await summaries.write(summary(revision=2))
    assert await stored(summaries) == summary(revision=3, needs_repair="torn")
    await summaries.write(summary(revision=4))
    assert (await stored(summaries)).needs_repair is None


async def test_a_repaired_document_of_the_same_revision_clears_the_mark(
    summaries: SessionSummaries,
) -> None:
    await summaries.write(summary(revision=3))
    await summaries.mark_needs_repair(NAMESPACE, "s-1", "torn", at(4))
    await summaries.mark_repaired(NAMESPACE, "s-1")
    assert await stored(summaries) == summary(revision=3)


async def test_a_session_without_a_summary_is_listed_when_it_needs_repair(
    summaries: SessionSummaries,
) -> None:
    assert await summaries.mark_needs_repair(NAMESPACE, "s-1", "torn", at(4))
    page = await summaries.list(SummaryQuery(namespace_id=NAMESPACE))
    assert [(each.session_id, each.needs_repair) for each in page.summaries] == [("s-1", "torn")]
    assert await summaries.write(summary())


def created() -> SessionDocument:
    command = CreateCommand(
        namespace_id=NAMESPACE,
        key_digest="c" * 64,
        spec=CreateSpec(cwd="/srv/repository", title="build", model="m", session_id="s-1"),
    )
    broker = Broker(
        endpoint_url="unix:///s",
        endpoint_generation=2,
        endpoint_incarnation="inc-a",
        sidecar_verifier=VERIFIER,
    )
    return first_document(command, broker, at(3))


async def test_the_summary_of_a_first_document_says_what_was_created() -> None:
    made = summary_of(created())
    assert made.key == "team/s-1"
    assert (made.incarnation, made.generation, made.revision) == ("inc-a", 2, 1)
    assert (made.status, made.title, made.model) == (MusterStatus.WAITING, "build", "m")
    assert (made.created_at, made.activity_at, made.closed_at) == (at(3), at(3), None)


async def test_the_read_copy_comes_with_the_revision_it_follows_from(
    summaries: SessionSummaries,
) -> None:
    document = created()
    assert await summaries.write(summary_of(document), view_of(document))
    assert not await summaries.write(summary(revision=0), None)
    assert await summaries.get_view(NAMESPACE, "s-1") == view_of(document)
    assert await stored(summaries) == summary_of(document)
    assert await summaries.get_view(NAMESPACE, "s-2") is None


async def _fill(summaries: SessionSummaries, count: int) -> list[str]:
    ids = [f"s-{number:02d}" for number in range(count)]
    for number, session_id in enumerate(ids):
        await summaries.write(summary(session_id, revision=number + 1))
    return ids


async def _all_pages(summaries: SessionSummaries, query: SummaryQuery) -> list[str]:
    seen: list[str] = []
    while True:
        page = await summaries.list(query)
        assert len(page.summaries) <= query.limit
        seen += [each.session_id for each in page.summaries]
        if page.next_after is None:
            return seen
        query = query.model_copy(update={"after": page.next_after})


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
async def test_pages_by_key_show_each_session_once(summaries: SessionSummaries, limit: int) -> None:
    ids = await _fill(summaries, 7)
    query = SummaryQuery(namespace_id=NAMESPACE, limit=limit)
    assert await _all_pages(summaries, query) == ids


async def test_pages_by_activity_start_with_the_newest(summaries: SessionSummaries) -> None:
    ids = await _fill(summaries, 7)
    query = SummaryQuery(namespace_id=NAMESPACE, limit=2, order=SummaryOrder.RECENT)
    assert await _all_pages(summaries, query) == ids[::-1]


async def test_a_session_that_changes_between_two_pages_is_still_shown_once(
    summaries: SessionSummaries,
) -> None:
    ids = await _fill(summaries, 4)
    query = SummaryQuery(namespace_id=NAMESPACE, limit=2)
    first = await summaries.list(query)
    await summaries.write(summary("s-00", revision=50))
    await summaries.write(summary("s-03", revision=50))
    rest = await summaries.list(query.model_copy(update={"after": first.next_after}))
    assert [each.session_id for each in (*first.summaries, *rest.summaries)] == ids


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "ö", "WyJrZXkiXQ"])
async def test_a_cursor_that_isnt_one_is_refused(summaries: SessionSummaries, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await summaries.list(SummaryQuery(after=cursor))


async def test_a_cursor_of_another_order_is_refused(summaries: SessionSummaries) -> None:
    await _fill(summaries, 2)
    page = await summaries.list(SummaryQuery(limit=1))
    with pytest.raises(InvalidInput, match="order key, not recent"):
        await summaries.list(SummaryQuery(after=page.next_after, order=SummaryOrder.RECENT))


async def test_closed_sessions_are_listed_on_request_only(summaries: SessionSummaries) -> None:
    await _fill(summaries, 3)
    await summaries.close(NAMESPACE, "s-01", "inc-a", at(9))
    everywhere = SummaryQuery()
    done = SummaryQuery(statuses=(MusterStatus.DONE,))
    assert await _all_pages(summaries, everywhere) == ["s-00", "s-02"]
    assert await _all_pages(summaries, done) == ["s-01"]
    with_closed = SummaryQuery(include_closed=True)
    assert await _all_pages(summaries, with_closed) == ["s-00", "s-01", "s-02"]


async def test_namespaces_and_prefixes_bound_a_list(summaries: SessionSummaries) -> None:
    await _fill(summaries, 12)
    await summaries.write(summary("s-01", namespace_id="team2"))
    in_one = SummaryQuery(namespace_id=NAMESPACE, prefix="s-1")
    in_all = SummaryQuery(prefix="s-01")
    assert await _all_pages(summaries, in_one) == ["s-10", "s-11"]
    page = await summaries.list(in_all)
    assert [each.key for each in page.summaries] == ["team/s-01", "team2/s-01"]


async def test_a_prefix_resolves_to_the_ids_that_begin_with_it(
    summaries: SessionSummaries,
) -> None:
    await _fill(summaries, 12)
    await summaries.close(NAMESPACE, "s-10", "inc-a", at(20))
    assert await summaries.resolve_prefix(NAMESPACE, "s-1") == ("s-11",)
    both = await summaries.resolve_prefix(NAMESPACE, "s-1", include_closed=True)
    assert both == ("s-10", "s-11")
    assert len(await summaries.resolve_prefix(NAMESPACE, "s")) == 10
    assert await summaries.resolve_prefix(NAMESPACE, "s-1.*") == ()
