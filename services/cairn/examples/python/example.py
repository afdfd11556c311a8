"""A tour of Cairn for a client in Python; every part checks what it shows.

It goes on while the server is killed and started again, and ends with 0 only if all of it held.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid

import grpc
from cairn.event.v1 import event_pb2, plan_pb2
from cairn.memory.v1 import session_memory_pb2 as memory_pb
from cairn.orchestrator.v1 import orchestrator_pb2 as pb

from client import Client, Watch
from errors import CairnError

# The tool with side effects that clients.toml gives to the server.
LETTER_TOOL = "post_letter"
# The kinds of events with which a run ends.
RUN_ENDS = ("run_completed", "run_failed", "run_cancelled")


def check(held: bool, claim: str) -> None:
    """Ends the example if something does not hold. Unlike assert it stays under `python -O`."""
    if not held:
        raise RuntimeError(f"this did not hold: {claim}")


def tool_step(title: str, tool: str, arguments_json: str) -> plan_pb2.PlanStep:
    """A step that is one call of a tool and needs no model."""
    tool_call = plan_pb2.ToolInvocation(name=tool, arguments_json=arguments_json)
    return plan_pb2.PlanStep(id=title.lower(), title=title, tool=tool_call)


def what_to_do(goal: str | None) -> event_pb2.StartRun:
    """The goal, to be planned by a model; or, without one, a plan of our own."""
    if goal:
        return event_pb2.StartRun(goal=goal)
    survey = tool_step("Survey", "list_files", '{"max": 20}')
    search = tool_step("Search", "search_files", '{"pattern": "lantern", "max": 20}')
    text = r'{"path": "cairn-out/python.md", "content": "Surveyed and searched.\n"}'
    note = tool_step("Note", "write_file", text)
    # Survey and search run at the same time, and the note waits for both.
    note.depends_on.extend([survey.id, search.id])
    plan = plan_pb2.Plan(order=plan_pb2.ORDER_GRAPH, steps=[survey, search, note])
    return event_pb2.StartRun(goal="Survey the workspace", plan=plan)


def be_refused(client: Client) -> None:
    """A request with a mistake: the error names the field, what is wrong, and what is allowed."""
    request = pb.StartRunRequest(request_id="two words", run=what_to_do(None))
    try:
        client.call(client.orchestrator.StartRun, request)
    except CairnError as error:
        if error.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
        check([one.field for one in error.violations] == ["request_id"], "it names the field")
        print(f"refused   {error.reason}")
        for one in error.violations:
            print(f"          {one.field}: {one.problem}; allowed: {one.allowed}")
    else:
        check(False, "a request_id with a space is refused")


def start(client: Client, run: event_pb2.StartRun) -> pb.StartRunResponse:
    """Starts a run. However often it is asked for, it starts once."""
    # Made once, before the first attempt. A program that may itself be killed stores it first.
    request_id = f"python-{uuid.uuid4()}"
    request = pb.StartRunRequest(request_id=request_id, run=run)
    started = client.call(client.orchestrator.StartRun, request)
    again = client.call(client.orchestrator.StartRun, request)
    check(started == again, "the same request has the same answer")
    other = pb.StartRunRequest(request_id=request_id, run=event_pb2.StartRun(goal="Another"))
    try:
        client.call(client.orchestrator.StartRun, other)
    except CairnError as error:
        if error.reason != "REQUEST_MISMATCH":
            raise
    else:
        check(False, "a request_id stands for one request")
    print(f"started   {started.session} run {started.run}; asked twice, started once")
    return started


def follow(client: Client, started: pb.StartRunResponse, cut_every: int) -> event_pb2.Event:
    """Watches a run from its first event to its last, over a line that breaks. Gives the last."""
    watch = Watch(client, started.session, after=started.seq - 1, cut_every=cut_every)
    seen: list[tuple[int, event_pb2.Event]] = []
    for seq, event in watch.events():
        seen.append((seq, event))
        kind = event.WhichOneof("kind")
        print(f"  {seq:>4}    {kind or 'of a kind that is newer than this program'}")
        if kind == "run_waiting":
            waiting = event.run_waiting
            if waiting.reason == event_pb2.WAIT_REASON_IN_DOUBT:
                print("          somebody has to decide; see ListPending")
        if kind in RUN_ENDS and getattr(event, kind).run == started.run:
            break
    # The watch has checked that each number is one more than the one before. Here it is compared
    # with the journal, read in one go.
    whole = Watch(client, started.session, after=started.seq - 1)
    for mine, theirs in zip(seen, whole.events()):
        check(mine == theirs, f"event {mine[0]} is the same however it is read")
    print(
        f"watched   {len(seen)} events, {watch.cuts} cuts by us, "
        f"{watch.losses} lost connections; none missed, none twice"
    )
    return seen[-1][1]


def look(client: Client, started: pb.StartRunResponse) -> None:
    """The plan with the state of its steps, the execution tree, the report."""
    session, run = started.session, started.run
    plan = client.call(client.orchestrator.GetPlan, pb.GetPlanRequest(session=session, run=run))
    print(f"plan      revision {plan.revision}, {plan_pb2.Order.Name(plan.order)}")
    for step in plan.steps:
        status = pb.StepStatus.Name(step.status).removeprefix("STEP_STATUS_").lower()
        print(f"          {step.number} {step.step.title}: {status}, {step.summary}")
        check(step.status == pb.STEP_STATUS_COMPLETED, f"step {step.number} is completed")
    request = pb.GetTreeRequest(session=session, run=run, view=pb.TREE_VIEW_NODES)
    tree = client.call(client.orchestrator.GetTree, request)
    known: set[str] = {""}
    for node in tree.nodes:
        check(node.parent_id in known, "parents come before their children")
        known.add(node.id)
    request = pb.GetTreeRequest(session=session, run=run, view=pb.TREE_VIEW_TODO)
    todo = client.call(client.orchestrator.GetTree, request)
    print(f"tree      {len(tree.nodes)} nodes; their goals:")
    for line in todo.text.splitlines():
        print(f"          {line}")
    asked = pb.GetReportRequest(session=session, run=run)
    report = client.call(client.orchestrator.GetReport, asked)
    lines = report.markdown.splitlines()
    check(len(lines) > 0, "there is a report")
    print(f"report    {len(lines)} lines; the first: {lines[0]}")


def remember(client: Client, session: str) -> None:
    """Session memory: what steps and clients of one session tell each other."""
    # No request_id here: a repeat sets the same value again.
    entry = {"key": "tea", "value": "green, <hot>\nand no sugar"}
    client.call(client.memory.SetMemory, memory_pb.SetMemoryRequest(session=session, **entry))
    request = memory_pb.GetMemoryRequest(session=session, key="tea")
    got = client.call(client.memory.GetMemory, request)
    check(got.value == entry["value"], "what was set is read")
    request = memory_pb.GetMemoryRequest(session=session, key="coffee")
    absent = client.call(client.memory.GetMemory, request)
    check(not absent.HasField("value"), "an absent key has no value, and is no error")
    listed = client.call(client.memory.ListMemory, memory_pb.ListMemoryRequest(session=session))
    print(f"memory    {', '.join(f'{one.key} = {one.value!r}' for one in listed.entries)}")


def begin_letter(client: Client) -> None:
    """Starts a run that calls the slow tool with side effects, and waits until it is on its way."""
    step = tool_step("Post", LETTER_TOOL, '{"to": "Ada"}')
    after = tool_step("Survey", "list_files", "{}")
    run = event_pb2.StartRun(goal="Post a letter", plan=plan_pb2.Plan(steps=[step, after]))
    started = start(client, run)
    for _, event in Watch(client, started.session, after=started.seq - 1).events():
        if event.WhichOneof("kind") == "call_intended":
            print("begun     the call may be on its way now: kill the server and start it again,")
            print("          then run this example with --expect-pending")
            return
        if event.WhichOneof("kind") == "run_failed":
            reason = event.run_failed.failure.message
            check(False, f"the server has the tool of clients.toml (it says: {reason})")


def find_letters(client: Client, expected: bool) -> list[pb.Pending]:
    """The letters of which nobody knows whether they were posted."""
    patience = client.patience()
    while True:
        # Without a session: in all sessions of this caller.
        answer = client.call(client.orchestrator.ListPending, pb.ListPendingRequest())
        # There may be questions of other programs; those are not ours to answer.
        found = [one for one in answer.pending if one.tool == LETTER_TOOL]
        if found or not expected:
            return found
        # A server that was just started may still be taking up what was interrupted.
        try:
            patience.wait(None)
        except TimeoutError:
            check(False, f"there is a pending call of '{LETTER_TOOL}', as --expect-pending says")


def settle(client: Client, expected: bool, cut_every: int) -> None:
    """Answers for calls whose outcome nobody knows, and sees their runs go on."""
    letters = find_letters(client, expected)
    if not letters:
        print("settle    skipped: no call is in doubt (see README.md for how to make one)")
    for letter in letters:
        print(f"in doubt  {letter.tool} {letter.arguments_json} of {letter.session}")
        print(f"          its key, to look for where the letters are: {letter.call_key}")
        done = event_pb2.Settlement.Done(output="posted, says the post office")
        # Made from the question: a second copy of this program gives the same answer, not another.
        # A call that is sent again and comes in doubt again has the same id, but another time.
        request = pb.DecideRequest(
            session=letter.session,
            pending_id=letter.id,
            settlement=event_pb2.Settlement(done=done),
            request_id=f"python-{letter.id}-{letter.settle_after_unix_ms}",
        )
        try:
            client.call(client.orchestrator.Decide, request)
            print("decided   done; takes effect when the call can no longer be running")
        except CairnError as error:
            if error.reason not in ("ALREADY_DECIDED", "NOT_PENDING"):
                raise
            print("decided   by somebody else")
        runs = client.call(client.orchestrator.ListRuns, pb.ListRunsRequest(session=letter.session))
        check(len(runs.runs) == letter.run, "the run that waits is the last of its session")
        # The whole session, as our StartRun made it: the first run begins with its events.
        of_run = pb.StartRunResponse(session=letter.session, run=letter.run, seq=1)
        last = follow(client, of_run, cut_every)
        check(last.WhichOneof("kind") == "run_completed", "the run goes on and is completed")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--address", default=os.environ.get("CAIRN_ADDRESS") or "127.0.0.1:7878")
    add("--goal", help="a goal to be planned by the server's model; without it, a plan of our own")
    add("--cut-every", type=int, default=4, metavar="N",
        help="cut the watch on purpose after every N events; 0: never (default: 4)")
    add("--patience", type=float, default=60, metavar="SECONDS",
        help="how long a call or a watch goes without an answer or an event (default: 60)")
    add("--begin-call", action="store_true",
        help="only start a run whose call can be brought in doubt by killing the server")
    add("--expect-pending", action="store_true", help="no call in doubt is an error")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        with Client(options.address, options.patience) as client:
            if options.begin_call:
                begin_letter(client)
                return 0
            be_refused(client)
            started = start(client, what_to_do(options.goal))
            last = follow(client, started, options.cut_every)
            check(last.WhichOneof("kind") == "run_completed", f"the run is completed: {last}")
            print(f"answer    {last.run_completed.answer}")
            look(client, started)
            remember(client, started.session)
            settle(client, options.expect_pending, options.cut_every)
            print(f"all of it held; calls repeated: {client.repeats}")
            return 0
    except (CairnError, RuntimeError, TimeoutError) as error:
        print(f"FAILED    {error} (server: {options.address})", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
