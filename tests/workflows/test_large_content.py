"""Twenty megabytes in and out: by reference, whole at the agent, small everywhere else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from muster.client.requests import prompt_content
from muster.domain.errors import LimitExceeded
from muster.domain.turn_model import INLINE_CONTENT_BYTES, TurnStatus
from muster.stores.documents.content import CONTENT_LIMIT
from tests.workflows.support import FREELY, Home

MEGABYTE = 1_000_000
DOCUMENT_BYTES = 64 * 1024
HISTORY_BYTES = 256 * 1024


def _document(home: Home, session: str) -> Path:
    return home.namespace_folder / "sessions" / session / "session.json"


def _script(text: str, name: str) -> str:
    """A prompt that puts `text` into a file of the working directory, as often as it is run."""
    return f"{FREELY}cat >> {name} <<'END'\n{text}\nEND\n"


async def _is_small(home: Home, session: str) -> None:
    """Neither the document nor the history has grown with what went through them."""
    assert _document(home, session).stat().st_size < DOCUMENT_BYTES
    history = await home.session_history(session)
    assert sum(each.ByteSize() for each in history.events) < HISTORY_BYTES


@pytest.mark.parametrize("character", ["x", "\u0001"], ids=["plain", "escaped"])
async def test_a_prompt_of_twenty_megabytes_reaches_the_agent_whole_and_once(
    home: Home, character: str
) -> None:
    session = (await home.create()).session_id
    text = character * (20 * MEGABYTE // len(character.encode()))
    prompt = _script(text, "made.txt")
    turn = await home.run(session, prompt, key="big")
    assert turn.status is TurnStatus.COMPLETED, turn.error
    made = (home.cwd / "made.txt").read_bytes()
    assert hashlib.sha256(made).digest() == hashlib.sha256(f"{text}\n".encode()).digest()
    assert turn.prompt.truncated
    assert turn.prompt.length == len(prompt.encode())
    assert prompt.startswith(turn.prompt.text)
    again = await home.client.send(session, prompt, key="big")
    assert (again.turn_id, again.repeated) == (turn.turn_id, True)
    await _is_small(home, session)


async def test_a_prompt_as_long_as_may_be_reaches_the_agent(home: Home) -> None:
    session = (await home.create()).session_id
    room = CONTENT_LIMIT - len(_script("", "made.txt").encode())
    turn = await home.run(session, _script("é" * (room // 2), "made.txt"))
    assert turn.status is TurnStatus.COMPLETED, turn.error
    assert (home.cwd / "made.txt").stat().st_size == room // 2 * 2 + 1


async def test_a_session_created_with_a_long_prompt_runs_all_of_it(home: Home) -> None:
    text = "z" * MEGABYTE
    prompt = _script(text, "first.txt")
    created = await home.create(initial_prompt=await home.client.content(prompt))
    await home.client.wait(created.session_id, "idle", within=30)
    (turn,) = (await home.client.sessions.show(created.session_id)).turns
    assert turn.status is TurnStatus.COMPLETED
    assert (home.cwd / "first.txt").read_text() == f"{text}\n"
    await _is_small(home, created.session_id)


async def test_a_response_of_twenty_megabytes_is_kept_by_reference_with_an_excerpt(
    home: Home,
) -> None:
    session = (await home.create()).session_id
    turn = await home.run(session, f"{FREELY}head -c {20 * MEGABYTE} /dev/zero | tr '\\0' y")
    assert turn.status is TurnStatus.COMPLETED, turn.error
    assert turn.response is not None
    assert turn.response.truncated
    assert turn.response.length == 20 * MEGABYTE
    assert turn.response.text
    assert set(turn.response.text) == {"y"}
    wanted = hashlib.sha256(b"y" * (20 * MEGABYTE)).hexdigest()
    kept = [
        path
        for path in (_document(home, session).parent / "runtime").rglob("*")
        if path.is_file() and path.stat().st_size == 20 * MEGABYTE
    ]
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in kept] == [wanted]
    assert wanted in _document(home, session).read_text()
    await _is_small(home, session)


async def test_a_prompt_longer_than_may_be_is_refused_before_anything_is_written(
    home: Home,
) -> None:
    session = (await home.create()).session_id
    before = _document(home, session).read_bytes()
    with pytest.raises(LimitExceeded):
        await home.client.send(session, "x" * (CONTENT_LIMIT + 1))
    assert _document(home, session).read_bytes() == before
    assert (await home.control(session)).turns == 0


@pytest.mark.parametrize("over", [0, 1])
def test_what_is_inline_and_what_is_staged_is_decided_by_bytes(over: int) -> None:
    content = prompt_content("é" * (INLINE_CONTENT_BYTES // 2) + "x" * over)
    assert content.truncated == bool(over)
    assert content.length == INLINE_CONTENT_BYTES + over
    assert len(content.text.encode()) <= INLINE_CONTENT_BYTES
