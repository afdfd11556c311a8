//! The points at which hooks are asked, in the trace of each run, and the questions to hooks.

use super::{named, orphans};
use crate::support::served::{SERVE, SESSION};
use crate::support::{CAIRN, served, talk};
use cairn_testkit::{Collector, Site, TraceSpan, eventually};
use serde_json::json;
use std::collections::BTreeSet;

/// Steps of the long plan.
const STEPS: usize = 200;
/// Steps of a plan whose run has more than 1,000 events.
const LONG: usize = 400;
/// Turns of the long conversation.
const TURNS: usize = 20;
const OTLP: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The values of an attribute of all events of that name, in their order.
fn values(span: &TraceSpan, event: &str, attribute: &str) -> Vec<String> {
    let events = span.events.iter().filter(|it| it.name == event);
    let values = events.map(|event| {
        let value = event.attributes.get(attribute);
        value
            .cloned()
            .unwrap_or_else(|| panic!("no {attribute} in {event:?}"))
    });
    values.collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// Each point is in the span `count` times, and its attribute counts from 0.
fn check_numbers(span: &TraceSpan, count: usize, points: &[(&str, &str)]) {
    let all = numbers(count);
    for (point, attribute) in points {
        assert_eq!(values(span, point, attribute), all, "{point}");
    }
}

/// The only root of a trace, with everything below it.
fn only_root(spans: &[TraceSpan]) -> &TraceSpan {
    let roots = named(spans, "invoke_workflow");
    assert_eq!(roots.len(), 1, "{roots:?}");
    let others = spans.iter().filter(|span| span.parent_span_id.is_empty());
    assert_eq!(others.count(), 1, "only the run has no parent");
    assert!(orphans(spans).is_empty());
    roots[0]
}

#[test]
fn every_step_of_a_long_plan_is_in_the_trace_with_its_index() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let step = json!({"tool": "list_files", "arguments": {"path": "docs"}});
    let plan = json!({"steps": vec![step; STEPS]});
    site.write("plan.json", &plan.to_string());
    let endpoint = collector.endpoint();
    let done = site.run_with(&["run", "--plan", "plan.json"], &[(OTLP, &endpoint)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let spans = collector.spans();
    let root = only_root(&spans);
    let points = [
        ("OnStepStart", "cairn.step.index"),
        ("OnTurnStart", "cairn.step.index"),
        ("OnTurnStart", "cairn.turn.index"),
        ("OnTurnEnd", "cairn.turn.index"),
        ("OnPlanStepComplete", "cairn.step.index"),
    ];
    check_numbers(root, STEPS, &points);
    let ends = values(root, "OnPlanStepComplete", "cairn.step.status");
    assert!(ends.iter().all(|status| status == "completed"), "{ends:?}");
    assert_eq!(values(root, "OnPlanProposed", "cairn.plan.index"), ["0"]);
    let names: Vec<&str> = root.events.iter().map(|event| &*event.name).collect();
    assert_eq!(
        (names[0], names[names.len() - 1]),
        ("OnRunStart", "OnRunEnd")
    );
    assert!(named(&spans, "hook").is_empty(), "no hook is configured");
}

/// The journal has more events than the process that continues the run reads for the trace.
#[test]
fn every_step_of_a_long_run_that_was_killed_is_in_its_trace() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let step = json!({"tool": "list_files", "arguments": {"path": "docs"}});
    let plan = json!({"steps": vec![step; LONG]});
    site.write("plan.json", &plan.to_string());
    let endpoint = collector.endpoint();
    let kill = format!("after:{}", LONG - 10);
    let run = ["run", "--plan", "plan.json"];
    let killed = site.run_with(&run, &[(OTLP, &endpoint), ("CAIRN_FAIL_COMMIT", &kill)]);
    assert_eq!(killed.signal, Some(9), "{killed:?}");
    let resumed = site.run_with(&["resume"], &[(OTLP, &endpoint)]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let spans = collector.spans();
    let roots = named(&spans, "invoke_workflow");
    assert_eq!(roots.len(), 1, "{roots:?}");
    let points = [
        ("OnStepStart", "cairn.step.index"),
        ("OnTurnEnd", "cairn.turn.index"),
        ("OnPlanStepComplete", "cairn.step.index"),
    ];
    check_numbers(roots[0], LONG, &points);
    let plans = values(roots[0], "OnPlanProposed", "cairn.plan.index");
    assert!(plans.is_empty(), "no time of a plan is in the state");
}

#[test]
fn every_turn_of_a_conversation_is_in_a_trace_with_its_index() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let endpoint = collector.endpoint();
    let _serving = site.start(&SERVE, &[(OTLP, &endpoint)]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut client = served::client(&site);
        talk::create(&mut client, SESSION).await;
        for number in 0..TURNS {
            let id = format!("turn-{number}");
            let request = talk::request(SESSION, &id, "Hello!");
            let mut events = client
                .submit_turn(request)
                .await
                .expect("a turn")
                .into_inner();
            while events.message().await.expect("an event").is_some() {}
        }
    });
    let is_whole = |spans: &[TraceSpan]| named(spans, "invoke_workflow").len() == TURNS;
    let spans = collector.wait_for(is_whole);
    let mut roots = named(&spans, "invoke_workflow");
    roots.sort_by_key(|root| root.start_ns);
    let traces: BTreeSet<_> = roots.iter().map(|root| &root.trace_id).collect();
    assert_eq!(traces.len(), TURNS, "each turn is a trace of its own");
    let mut indices = Vec::new();
    for root in roots {
        let names: Vec<&str> = root.events.iter().map(|event| &*event.name).collect();
        assert_eq!(
            names,
            ["OnRunStart", "OnTurnStart", "OnTurnEnd", "OnRunEnd"]
        );
        let started = values(root, "OnTurnStart", "cairn.turn.index");
        assert_eq!(started, values(root, "OnTurnEnd", "cairn.turn.index"));
        indices.extend(started);
    }
    assert_eq!(indices, numbers(TURNS));
}

/// A hook that is asked about the end of a turn alone.
const END: &str = r#"
[[hooks]]
name = "end"
points = ["OnRunEnd"]
command = ["true"]
"#;

/// A session between two turns has no run that its transitions could belong to.
#[test]
fn the_answer_of_a_hook_about_the_end_of_a_turn_is_durable_in_its_trace() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    site.append("cairn.toml", END);
    let endpoint = collector.endpoint();
    let _serving = site.start(&SERVE, &[(OTLP, &endpoint)]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut client = served::client(&site);
        talk::create(&mut client, SESSION).await;
        let request = talk::request(SESSION, "turn", "Hello!");
        let answer = client.submit_turn(request).await.expect("a turn");
        let mut events = answer.into_inner();
        while events.message().await.expect("an event").is_some() {}
    });
    let journal = eventually("the answer of the hook", || {
        let journal = site.journal(SESSION);
        let is_answered = !journal.of_kind("hooks_answered").is_empty();
        is_answered.then_some(journal)
    });
    let asked = ["session_created", "command_received"].map(|kind| journal.of_kind(kind).len());
    let decided = journal.0.len() - asked.iter().sum::<usize>();
    let spans = collector.wait_for(|spans| {
        let commits = named(spans, "commit").into_iter();
        let events = commits.map(|commit| commit.attributes["cairn.events"].parse::<usize>());
        let durable: usize = events.map(|events| events.expect("a number")).sum();
        durable >= decided
            && !named(spans, "invoke_workflow").is_empty()
            && orphans(spans).is_empty()
    });
    only_root(&spans);
}

/// A hook that lets everything pass, and one that stops requests and calls.
const STOPS: &str = r#"
[[hooks]]
name = "quiet"
points = ["OnStepStart", "OnTurnStart", "PreRequest", "PostRequest", "PreToolCall", "PostToolCall", "OnError", "OnTurnEnd", "OnPlanStepComplete"]
command = ["true"]
[[hooks]]
name = "stop"
points = ["PreRequest", "PreToolCall"]
command = ["sh", "-c", "echo no >&2; exit 2"]
"#;

#[test]
fn what_hooks_stop_and_what_fails_are_points_too() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    site.append("cairn.toml", STOPS);
    let plan = json!({"order": "graph", "steps": [
        {"tool": "list_files", "arguments": {"path": "docs"}},
        {"title": "Look", "description": "Look around."},
    ]});
    site.write("plan.json", &plan.to_string());
    let run = ["run", "--plan", "plan.json", "--on-failure", "go-on"];
    let endpoint = collector.endpoint();
    let done = site.run_with(&run, &[(OTLP, &endpoint)]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let spans = collector.spans();
    only_root(&spans);
    for (point, expected) in [
        ("OnStepStart", 2),
        ("OnTurnStart", 2),
        ("PreRequest", 1),
        ("PostRequest", 0),
        ("PreToolCall", 1),
        ("PostToolCall", 0),
        ("OnError", 2),
        ("OnTurnEnd", 0),
        ("OnPlanStepComplete", 2),
    ] {
        let questions = named(&spans, "hook").into_iter();
        let questions = questions.filter(|span| span.name == "hook quiet");
        let asked = questions.filter(|span| span.attributes["cairn.hook.point"] == point);
        let events = spans.iter().flat_map(|span| &span.events);
        let reached = events.filter(|event| event.name == point);
        let counts = (asked.count(), reached.count());
        assert_eq!(counts, (expected, expected), "{point}");
    }
}

/// A model whose server is down, and a hook that is asked before it is asked again.
const DOWN: &str = r#"{"match": {"step": ""}, "replies": [{"error": "server", "text": "down"}], "repeat": true}
"#;
const RETRIED: &str = r#"
[models.played]
provider = "recorded"
path = "played.jsonl"
[[hooks]]
name = "quiet"
points = ["OnRetry"]
command = ["true"]
"#;

#[test]
fn each_retry_is_a_point_of_the_question_to_the_model() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    site.append("cairn.toml", RETRIED);
    site.write("played.jsonl", DOWN);
    let plan = json!({"steps": [{"title": "Look", "description": "Look around."}]});
    site.write("plan.json", &plan.to_string());
    let run = ["run", "--plan", "plan.json", "--model", "played"];
    let endpoint = collector.endpoint();
    let variables = [(OTLP, &*endpoint), ("CAIRN_MODEL__MAX_RETRIES", "1")];
    let done = site.run_with(&run, &variables);
    assert_eq!(done.code, Some(1), "{done:?}");
    let spans = collector.spans();
    only_root(&spans);
    let questions = named(&spans, "chat");
    let [question] = questions[..] else {
        panic!("{questions:?}");
    };
    assert_eq!(values(question, "OnRetry", "attempt"), ["1"]);
    assert_eq!(values(question, "PreRequest", "cairn.tool_turn"), ["0"]);
    let replies = values(question, "PostRequest", "cairn.tool_turn");
    assert!(replies.is_empty(), "there is no reply");
    let asked = named(&spans, "hook");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].attributes["cairn.hook.point"], "OnRetry");
}

/// A model that calls a tool, and ends its step.
const PLAYED: &str = r#"{"match": {"step": "Look"}, "replies": [{"tool_calls": [{"name": "list_files", "arguments": {}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Seen."}}]}]}
"#;
/// A hook that lets everything pass, and one that cannot be read.
const HOOKS: &str = r#"
[models.played]
provider = "recorded"
path = "played.jsonl"
[[hooks]]
name = "quiet"
points = ["OnRunStart", "OnStepStart", "OnTurnStart", "PreRequest", "PostRequest", "PreToolCall", "PostToolCall", "OnTurnEnd", "OnPlanStepComplete"]
command = ["true"]
[[hooks]]
name = "broken"
points = ["OnTurnEnd"]
command = ["false"]
"#;

#[test]
fn each_question_to_a_hook_is_a_span_below_its_run() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    site.append("cairn.toml", HOOKS);
    site.write("played.jsonl", PLAYED);
    let plan = json!({"steps": [{"title": "Look", "description": "Look around."}]});
    site.write("plan.json", &plan.to_string());
    let run = ["run", "--plan", "plan.json", "--model", "played"];
    let endpoint = collector.endpoint();
    let done = site.run_with(&run, &[(OTLP, &endpoint)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let spans = collector.spans();
    let root = only_root(&spans);
    let journal = site.journal(&site.sessions()[0]);
    let answers: usize = journal
        .of_kind("hooks_answered")
        .iter()
        .flat_map(|event| event["outcomes"].as_array().expect("outcomes"))
        .map(|outcome| outcome["answers"].as_array().map_or(0, Vec::len))
        .sum();
    let questions = named(&spans, "hook");
    assert_eq!(questions.len(), answers);
    let keys: BTreeSet<&String> = questions
        .iter()
        .map(|span| &span.attributes["cairn.hook.key"])
        .collect();
    assert_eq!(keys.len(), questions.len(), "each question has its own key");
    for span in &questions {
        assert_eq!(span.parent_span_id, root.span_id, "{span:?}");
        assert_eq!(span.kind, "client");
        assert_eq!(span.attributes["cairn.run"], "1");
        let is_broken = span.name == "hook broken";
        assert_eq!(span.error.is_some(), is_broken, "{span:?}");
        assert_eq!(span.attributes["cairn.hook.answer"], "proceed");
        if is_broken {
            assert_eq!(span.attributes["error.type"], "HOOK_WRONG");
        }
    }
    check_points(&spans, &questions);
}

/// Requests and calls are points of the spans that they have anyway.
fn check_points(spans: &[TraceSpan], questions: &[&TraceSpan]) {
    let asked = |point: &str| {
        let of_point = questions
            .iter()
            .filter(|span| span.attributes["cairn.hook.point"] == point);
        of_point.count()
    };
    for (operation, points, attribute) in [
        ("chat", ["PreRequest", "PostRequest"], "cairn.tool_turn"),
        (
            "execute_tool",
            ["PreToolCall", "PostToolCall"],
            "cairn.call.index",
        ),
    ] {
        let found = named(spans, operation);
        for point in points {
            let events: usize = found
                .iter()
                .map(|span| values(span, point, attribute).len())
                .sum();
            assert_eq!(events, asked(point), "{point} of {operation}");
        }
    }
    assert_eq!((asked("OnRunStart"), asked("OnStepStart")), (1, 1));
}
