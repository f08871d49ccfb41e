"""A lifecycle of something else altogether: a document on its way to being published. No engine, no tools."""

from dataclasses import dataclass, field

from fsm_engine import ANY_UNFINISHED, Firing, Lifecycle, LifecycleMachine, Row, State, TransitionRefusedError
from fsm_engine.diagram import lifecycle_diagram
from fsm_engine.machine.soundness import check_lifecycle


@dataclass
class Document:
    """What moves: any object with a `state`."""

    title: str
    state: str = "DRAFT"
    approvals: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)


def is_approved(event: Firing) -> bool:
    """Two people have approved it."""
    return len(event.model.approvals) >= 2


DOCUMENT = Lifecycle(
    name="document",
    doc="A document, from the first draft to the archive.",
    initial="DRAFT",
    states=(
        State("DRAFT", on_enter=("forget_approvals",), doc="It is being written."),
        State("REVIEW", activity="read and comment", doc="Others read it."),
        State("PUBLISHED", on_enter=("announce",), doc="Everybody reads it."),
        State("ARCHIVED", final=True, doc="It is of historical interest."),
    ),
    rows=(
        Row("DRAFT", "submit", "REVIEW", doc="The author is content."),
        Row("REVIEW", "decide", "PUBLISHED", guard="is_approved", doc="The readers are content, too."),
        Row("REVIEW", "decide", "DRAFT", doc="It needs more work."),
        Row("PUBLISHED", "revise", "DRAFT", doc="Something has changed."),
        Row(ANY_UNFINISHED, "archive", "ARCHIVED", doc="Nobody needs it any more."),
    ),
    guards={"is_approved": is_approved},
    on_transition=("write_log",),
)


def forget_approvals(event: Firing) -> None:
    event.model.approvals.clear()


def announce(event: Firing) -> None:
    print(f"published: {event.model.title}")


def write_log(event: Firing) -> None:
    event.model.log.append(str(event.row))


HOOKS = {"forget_approvals": forget_approvals, "announce": announce, "write_log": write_log}


def main() -> None:
    machine = LifecycleMachine(DOCUMENT, HOOKS)
    document = Document("How to boil an egg")
    machine.fire(document, "submit")
    machine.fire(document, "decide")  # nobody has approved it yet
    machine.fire(document, "submit")
    document.approvals |= {"Ada", "Bo"}
    machine.fire(document, "decide")
    try:
        machine.fire(document, "submit")
    except TransitionRefusedError as refused:
        print(refused)
    print(*document.log, sep="\n")
    print(check_lifecycle(DOCUMENT))
    print(lifecycle_diagram(DOCUMENT).to_mermaid())


if __name__ == "__main__":
    main()
