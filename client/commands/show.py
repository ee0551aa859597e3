"""How sessions, turns and questions look to people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from muster.client.durations import age
from muster.domain.control import MusterStatus
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import TurnStatus
from muster.domain.view import Excerpt, QuestionView, SessionView, TurnView

SHOWN_TURNS = 5

_STYLES = {
    MusterStatus.WORKING: "cyan",
    MusterStatus.WAITING: "green",
    MusterStatus.QUESTION: "bold yellow",
    MusterStatus.UNCERTAIN: "bold magenta",
    MusterStatus.CLOSING: "dim",
    MusterStatus.DONE: "dim",
    MusterStatus.FAILED: "bold red",
}
_TURN_STYLES = {
    TurnStatus.COMPLETED: "green",
    TurnStatus.FAILED: "bold red",
    TurnStatus.CANCELLED: "yellow",
    TurnStatus.SUPERSEDED: "yellow",
    TurnStatus.QUEUED: "dim",
}


def status_text(status: MusterStatus) -> str:
    """A status in its colour."""
    return f"[{_STYLES[status]}]{status.value}[/]"


def summaries_table(summaries: Iterable[SessionSummary]) -> RenderableType:
    """A list of sessions."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("SESSION", "STATUS", "TURNS", "QUEUED", "ASKS", "ACTIVE", "TITLE", "DIRECTORY"):
        table.add_column(name, no_wrap=name != "TITLE", overflow="fold")
    for each in summaries:
        table.add_row(
            escape(each.session_id),
            status_text(each.status) + (" [red](needs repair)[/]" if each.needs_repair else ""),
            str(each.turns),
            str(each.queued or ""),
            str(each.open_questions or ""),
            f"{age(each.activity_at)} ago",
            escape(each.title or ""),
            escape(each.cwd),
        )
    return table if table.row_count else "[dim]no sessions[/]"


def session_text(summary: SessionSummary, view: SessionView | None) -> RenderableType:
    """One session: what it is, what it does, what it asks and what it did last."""
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in _facts(summary, view):
        facts.add_row(label, value)
    parts: list[RenderableType] = [facts]
    if view is not None and view.questions:
        parts += ["", questions_text(view.questions)]
    if view is not None and view.turns:
        parts += ["", turns_table(view.turns[-SHOWN_TURNS:])]
    if view is not None and view.reports:
        report = view.reports[0]
        parts += ["", f"[dim]last report[/]  {report.status}: {escape(report.summary)}"]
    return Group(*parts)


def _facts(summary: SessionSummary, view: SessionView | None) -> list[tuple[str, str]]:
    status = status_text(summary.status)
    facts = [("session", f"[bold]{escape(summary.session_id)}[/]  {status}")]
    if summary.title:
        facts.append(("title", escape(summary.title)))
    facts.append(("directory", escape(summary.cwd)))
    runtime = summary.runtime.value if summary.runtime else "not known yet"
    facts.append(("runtime", runtime + (f", {escape(summary.model)}" if summary.model else "")))
    facts.append(("created", f"{summary.created_at} ({age(summary.created_at)} ago)"))
    facts.append(("active", f"{summary.activity_at} ({age(summary.activity_at)} ago)"))
    facts.append(("turns", f"{summary.turns}, {summary.queued} queued"))
    if view is not None and view.active_turn_id:
        facts.append(("running", view.active_turn_id))
    if view is not None and view.queue:
        facts.append(("queue", ", ".join(view.queue)))
    for label, value in (
        ("agent", summary.gone),
        ("uncertain", summary.uncertain),
        ("repair", summary.needs_repair),
        ("closed", summary.closed_at),
    ):
        if value:
            facts.append((label, escape(value)))
    facts.append(
        ("incarnation", f"{summary.incarnation or 'none yet'}, revision {summary.revision}")
    )
    return facts


def turns_table(turns: Iterable[TurnView]) -> Table:
    """Turns, oldest first, with the beginning of what was said."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("TURN", "STATUS", "PROMPT", "ANSWER"):
        table.add_column(name, no_wrap=name in ("TURN", "STATUS"), overflow="fold")
    for each in turns:
        said = each.error or (_one_line(each.response) if each.response else "")
        table.add_row(each.turn_id, turn_status(each), escape(_one_line(each.prompt)), escape(said))
    return table


def turn_status(turn: TurnView) -> str:
    """A turn's status in its colour."""
    return f"[{_TURN_STYLES.get(turn.status, 'cyan')}]{turn.status.value}[/]"


def turn_text(turn: TurnView) -> RenderableType:
    """One turn as its sender wants to see it."""
    lines = [f"turn {turn.turn_id} {turn_status(turn)}"]
    if turn.error:
        lines.append(f"[red]{escape(turn.error)}[/]")
    if turn.response and turn.response.text:
        lines.append(escape(turn.response.text.rstrip()) + _cut(turn.response))
    if turn.head_before != turn.head_after:
        lines.append(f"[dim]head {turn.head_before or 'none'} → {turn.head_after or 'none'}[/]")
    return "\n".join(lines)


def questions_text(questions: Iterable[QuestionView]) -> RenderableType:
    """Open questions with the options one can answer with."""
    blocks = []
    for each in questions:
        options = "\n".join(
            f"    [bold]{escape(option.option_id)}[/]  {escape(option.name)}"
            for option in each.options
        )
        asked = escape(each.prompt.strip()).replace("\n", "\n    ")
        when = f"[dim]turn {each.turn_id}, {age(each.created_at)} ago[/]"
        blocks.append(f"[bold yellow]{each.question_id}[/]  {when}\n    {asked}\n{options}")
    return "\n".join(blocks) or "[dim]no open questions[/]"


def _one_line(text: Excerpt, limit: int = 80) -> str:
    line = " ".join(text.text.split())
    return line if len(line) <= limit and not text.truncated else f"{line[: limit - 1]}…"


def _cut(text: Excerpt) -> str:
    return f"\n[dim]… cut; {text.length} in all[/]" if text.truncated else ""
