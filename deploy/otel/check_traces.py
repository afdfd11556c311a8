"""Arize Phoenix as the collector of Cairn's traces, for deploy/test-traces.

    check_traces.py serve                     serves Phoenix, as its variables say, on this machine alone
    check_traces.py plan STEPS                prints a plan: calls of a tool, and every second step one of the model
    check_traces.py check URL PROJECT JOURNAL compares a project with the journal of the session that it is about
"""

from __future__ import annotations

import json
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter

PAGE = 1000
# Phoenix stores spans some time after it took them.
PATIENCE = 60.0
QUIET = 5.0


def serve() -> None:
    """Its gRPC port would be open to other machines."""
    from grpc.aio import _server
    from phoenix.server import main

    open_port = _server.Server.add_insecure_port
    _server.Server.add_insecure_port = lambda server, at: open_port(server, at.replace("[::]", "127.0.0.1"))
    sys.argv[1:] = ["serve"]
    main.main()


def plan(steps: int) -> None:
    call = {"tool": "list_files", "arguments": {"path": "docs"}}
    kinds = [call, {"title": "List", "description": "List the files under docs"}]
    print(json.dumps({"steps": [kinds[step % 2] for step in range(steps)]}))


def spans(url: str, project: str) -> list[dict]:
    """All spans that Phoenix has now."""
    found, cursor = [], None
    while True:
        query = {"limit": PAGE, **({"cursor": cursor} if cursor else {})}
        address = f"{url}/v1/projects/{project}/spans?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            page = json.load(answer)
        found += page["data"]
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def settled(url: str, project: str) -> list[dict]:
    """All spans, once no more come."""
    found, since, end = [], time.monotonic(), time.monotonic() + PATIENCE
    while time.monotonic() - since < QUIET and time.monotonic() < end:
        time.sleep(1)
        newer = spans(url, project)
        if len(newer) != len(found):
            found, since = newer, time.monotonic()
    return found


def value(attributes: dict, name: str) -> object:
    """An attribute of a span, whose parts are nested, or of an event."""
    if name in attributes:
        return attributes[name]
    for part in name.split("."):
        attributes = attributes.get(part, {}) if isinstance(attributes, dict) else {}
    return None if attributes == {} else attributes


def points(journal: list[dict]) -> Counter:
    """How often hooks were asked at each point."""
    asked: Counter = Counter()
    for event in journal:
        if event["kind"] == "hooks_answered":
            name = event["gate"]["point"].title().replace("_", "")
            asked[name] += sum(len(outcome["answers"]) for outcome in event["outcomes"])
    return asked


def check(url: str, project: str, path: str) -> list[str]:
    with open(path, encoding="utf-8") as lines:
        journal = [json.loads(line) for line in lines]
    kinds = Counter(event["kind"] for event in journal)
    found = settled(url, project)
    ids = {(span["context"]["trace_id"], span["context"]["span_id"]) for span in found}
    roots = [span for span in found if not span["parent_id"]]
    runs = sorted((span for span in found if span["name"] == "invoke_workflow cairn"), key=lambda span: span["start_time"])
    hooks = [span for span in found if span["name"].startswith("hook ")]
    events = Counter(event["name"] for span in found for event in span["events"])
    asked = points(journal)
    faults = []

    def same(what: str, there: object, expected: object) -> None:
        if there != expected:
            faults.append(f"{what}: {there} in Phoenix, {expected} expected")

    same("spans with ids of their own", len(ids), len(found))
    same("runs", len(runs), kinds["run_started"])
    same("roots", Counter(span["name"] for span in roots), Counter({"invoke_workflow cairn": len(runs)}))
    same("traces", len({trace for trace, _ in ids}), len(runs))
    missing = [span for span in found if span["parent_id"] and (span["context"]["trace_id"], span["parent_id"]) not in ids]
    same("spans without their parent", len(missing), 0)
    failed = Counter(span["name"] for span in found if span["status_code"] == "ERROR")
    same("failed spans", failed, Counter())
    same("questions", Counter(value(span["attributes"], "cairn.hook.point") for span in hooks), asked)
    same("keys of questions", len({value(span["attributes"], "cairn.hook.key") for span in hooks}), len(hooks))
    same("points", events, asked)
    of_runs = [event for span in runs for event in span["events"]]
    for name, index in [("OnStepStart", "step"), ("OnPlanStepComplete", "step"), ("OnTurnStart", "turn"), ("OnTurnEnd", "turn")]:
        there = [value(event["attributes"], f"cairn.{index}.index") for event in of_runs if event["name"] == name]
        same(f"indices of {name}", there, list(range(asked[name])))
    print(f"{project}: {len(found)} spans, {len(runs)} roots, {len(hooks)} questions, {dict(sorted(events.items()))}")
    return faults


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["plan", steps]:
            plan(int(steps))
        case ["check", url, project, path]:
            faults = check(url, project, path)
            print("\n".join(f"FAILS: {project}: {fault}" for fault in faults) or f"passes: {project}")
            sys.exit(1 if faults else 0)
        case _:
            sys.exit(__doc__)
