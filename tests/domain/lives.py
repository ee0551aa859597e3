"""Random lives of a session, each step compared with a plain model of it.

A life mixes commands, what the runtime does by itself, and what goes wrong: a change is committed
and its answer lost, so that it comes again; an old one comes again much later; events are read
again from an older cursor; a receipt of the runtime never arrives.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from muster.domain import changes as c
from muster.domain.contract import Contract
from muster.domain.control import control_of
from muster.domain.errors import MusterError
from muster.domain.session_document import PromptOperation, SessionDocument, SessionPolicy, encode
from muster.domain.session_rules import decode_document
from muster.domain.transitions import apply
from muster.domain.turn_model import ACTIVE_TURN
from tests.domain import builders as b
from tests.domain.plain_model import PlainSession, Refused
from tests.domain.simulated_runtime import SimulatedRuntime

STEPS = 40
GATES = [f"g{number}" for number in range(4)]
KEYS = [f"k{number}" for number in range(9)]
OPERATIONS: list[PromptOperation] = ["turn.prompt", "turn.follow_up", "turn.abort_and_prompt"]
QUESTION_IDS = {gate: b.question_of(gate) for gate in GATES}
NAMES = {**QUESTION_IDS, **{question: gate for gate, question in QUESTION_IDS.items()}}
QUEUE_LIMIT = 2
FIRST = b.idle(SessionPolicy(queue_limit=QUEUE_LIMIT))


class Life:
    """One session's document, its runtime and the model of it, under one random seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.document: SessionDocument = FIRST
        self.runtime = SimulatedRuntime(self.rng, GATES)
        self.model = PlainSession(b.SESSION, b.INCARNATION, QUEUE_LIMIT, NAMES)
        self.starts: list[str] = []
        self.sent: list[c.Change] = []
        self.clock = 0
        self.published = 0

    # what can happen

    def prompt(self) -> None:
        operation = self.rng.choice(OPERATIONS)
        text = self.rng.choice(["one", "one", "one", "two"])
        self.send(b.prompt(self.rng.choice(KEYS), text, operation))

    def answer(self) -> None:
        option = self.rng.choice(["allow", "reject", None, "allow", "maybe"])
        self.send(b.answer(f"w{self.rng.randrange(6)}", self.rng.choice([*GATES, "ghost"]), option))

    def operate(self) -> None:
        name = self.rng.choice(KEYS)
        number = self.rng.randrange(4)
        possible: list[c.Change] = [
            b.stop(f"x{number}", keep_queue=self.rng.random() < 0.5),
            b.stop(f"x{number}", of=name),
            b.stop(f"x{number}", keep_queue=True, reason="question_timeout"),
            b.cancel(f"c{number}", name),
            b.report(f"r{number}", of=self.rng.choice([name, None])),
        ]
        self.send(self.rng.choice(possible))

    def close(self) -> None:
        if self.rng.random() < 0.25:
            incarnation = self.rng.choice([b.INCARNATION, b.INCARNATION, "inc-0"])
            force = self.rng.random() < 0.5
            self.send(b.close(f"d{self.rng.randrange(2)}", force=force, incarnation=incarnation))

    def deliver(self) -> None:
        active = control_of(self.document).active
        if active is None or active.acknowledged:
            return
        receipt = self.runtime.deliver(active.delivery_key, active.turn_id)
        if receipt is None:
            self.send(
                c.FailTurn(
                    turn_id=active.turn_id,
                    code="runtime_gone",
                    message="the runtime has ended",
                    runtime_gone=self.rng.random() < 0.5,
                )
            )
        elif self.rng.random() < 0.7:
            self.send(c.RecordDelivery(turn_id=active.turn_id, receipt=receipt))

    def follow(self) -> None:
        cursor = self.document.recovery.runtime_cursor
        after = max(0, cursor - self.rng.choice([0, 0, 0, 3]))
        found = self.runtime.log[after : after + self.rng.choice([1, 3, 64])]
        reached = found[-1].seq if found else after
        gone = self.runtime.ended and reached == len(self.runtime.log)
        self.send(c.RecordEvents(events=tuple(found), cursor=reached, gone=gone))

    def tell(self) -> None:
        """Tell the runtime what is claimed and what is to be interrupted."""
        control = control_of(self.document)
        for claim in control.claims[:1]:
            receipt = self.runtime.answer(claim.sdk_idempotency_key, claim.gate_id, claim.option_id)
            if self.rng.random() < 0.7:
                self.send(c.SettleAnswer(key_digest=claim.key_digest, receipt=receipt))
        active = control.active
        if active and active.interrupt_key and self.runtime.running == active.turn_id:
            self.runtime.interrupt()

    def give_up(self) -> None:
        if self.rng.random() < 0.2 and self.document.canonical.turns:
            turn = self.rng.choice(list(self.document.canonical.turns))
            if turn not in self.document.canonical.queue.ordered_turn_ids:
                self.send(c.FailTurn(turn_id=turn, code="delivery_failed", message="no way"))

    def publish(self) -> None:
        owed = [
            each
            for each in self.document.outbox.values()
            if each.public_delivery.journal_seq is None
        ]
        acknowledgements = []
        for event in sorted(owed, key=lambda each: (each.transaction_revision, each.id))[:4]:
            self.published += 1
            acknowledgements.append(
                c.Acknowledgement(public_event_id=event.public_event_id, journal_seq=self.published)
            )
        self.send(c.AcknowledgeEvents(acknowledgements=tuple(acknowledgements)))

    def repeat(self) -> None:
        """Something sent long ago comes again."""
        if self.sent:
            self.send(self.rng.choice(self.sent))

    def step(self) -> None:
        actions: list[Callable[[], None]] = [
            *(self.prompt, self.prompt, self.deliver, self.deliver, self.deliver),
            *(self.follow, self.follow, self.follow, self.runtime.live, self.runtime.live),
            *(self.answer, self.answer, self.tell, self.tell, self.operate),
            *(self.publish, self.repeat, self.close, self.give_up),
        ]
        self.rng.choice(actions)()

    # what must hold

    def send(self, change: c.Change) -> None:
        self.sent.append(change)
        self.clock += 1
        before = self.document
        try:
            expected = self.model.apply(change)
        except Refused as refused:
            self.expect_refusal(change, refused.code)
            return
        self.document, heard = apply(before, change, b.moment(self.clock))
        if self.document is before:
            assert heard.type != "prompt_accepted" or heard.repeated
        else:
            assert self.document.revision == before.revision + 1
            assert self.document != before
        self.compare_answer(change, heard, expected)
        self.expect_repeatable(change, heard)
        self.compare()

    def expect_refusal(self, change: c.Change, code: str) -> None:
        wanted, _, won = code.partition(":")
        with pytest.raises(MusterError) as refused:
            apply(self.document, change, b.moment(self.clock))
        assert refused.value.code == wanted
        if won:
            assert str(refused.value.details["option_id"]) == won

    def expect_repeatable(self, change: c.Change, heard: Contract) -> None:
        """Committed twice, because the first answer was lost, it counts once."""
        again, told = apply(self.document, change, b.moment(self.clock + 0.5))
        assert again is self.document
        assert told.model_dump(exclude={"repeated"}) == heard.model_dump(exclude={"repeated"})

    def compare_answer(
        self, change: c.Change, heard: c.Outcome, expected: dict[str, object]
    ) -> None:
        found: dict[str, object]
        match heard:
            case c.OperationDone():
                found = {
                    "repeated": heard.repeated,
                    "status": heard.response.get("status"),
                    "cancelled": heard.response.get("cancelled_queued"),
                }
            case c.CloseAdmitted():
                found = {"settled": sorted(heard.settled_turn_ids)}
            case _:
                found = heard.model_dump()
        assert {name: found[name] for name in expected} == expected, change

    def compare(self) -> None:
        document, model = self.document, self.model
        stored = decode_document(encode(document), b.NAMESPACE, b.SESSION)
        assert stored == document
        canonical = document.canonical
        assert {key: turn.status.value for key, turn in canonical.turns.items()} == model.turns
        assert list(canonical.queue.ordered_turn_ids) == model.queue
        active = canonical.queue.active_turn_id
        assert active == model.active
        running = [key for key, turn in canonical.turns.items() if turn.status in ACTIVE_TURN]
        assert running == ([active] if active else [])
        started = [key for key, turn in canonical.turns.items() if turn.started_at]
        self.starts += [key for key in started if key not in self.starts]
        assert self.starts == model.starts
        assert {
            NAMES[key]: (each.status, each.answered_option_id)
            for key, each in canonical.questions.items()
        } == {
            gate: (each["status"], each["won"] if each["status"] == "answered" else None)
            for gate, each in model.questions.items()
        }
        assert {
            key: each.safe_receipt.status if each.safe_receipt else "claimed"
            for key, each in document.requests.answers.items()
        } == {key: each["status"] for key, each in model.answers.items()}
        self.compare_reports_and_events()

    def compare_reports_and_events(self) -> None:
        document, model = self.document, self.model
        turn_reports: dict[str, list[str]] = {}
        filed = set()
        for each in document.canonical.reports.values():
            if each.operation_id.startswith("turn-end:"):
                turn_reports.setdefault(each.turn_id, []).append(each.status)
            else:
                filed.add(each.operation_id)
        assert turn_reports == model.turn_reports
        assert filed == model.filed_reports
        assert set(document.requests.prompts) == set(model.prompts)
        told = Counter((each.kind, each.entity_id) for each in document.outbox.values())
        owed = {pair: n for pair, n in told.items() if pair[0] != "report.filed"}
        assert owed == dict(model.events)


def live(seed: int) -> Life:
    """A whole life; a difference raises AssertionError with the seed and the last changes."""
    life = Life(seed)
    for number in range(STEPS):
        try:
            life.step()
        except Exception as error:
            done = "\n".join(f"  {each.type} {each!r}"[:300] for each in life.sent[-12:])
            raise AssertionError(f"MUSTER_SEED={seed}, step {number}, after\n{done}") from error
    return life
