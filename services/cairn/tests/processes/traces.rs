//! The trace of a run over five processes, as a collector receives it.
//!
//! Each span is compared with the journal. A run that a kill interrupts is one trace. Contents are
//! traced only if the settings ask for them.

mod hooks;

use crate::support::served::{SERVE, SESSION};
use crate::support::{CAIRN, served, talk};
use cairn_testkit::cluster::SERVICES;
use cairn_testkit::{Cluster, Collector, Journal, Site, TraceSpan};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const GOAL: &str = "Which files under docs mention Redis, and what do they say about it?";

/// Runs the goal to its end; the session.
fn pursue(site: &Site, server: &str) -> String {
    let output = site.run(&["run", GOAL, "--json", "--server", server]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let sessions = site.run(&["sessions", "--json", "--server", server]).out;
    let session: Value = serde_json::from_str(sessions.trim()).expect("one session");
    session["id"].as_str().expect("an id").to_owned()
}

fn journal(site: &Site, server: &str, session: &str) -> Journal {
    Journal::read(&site.run(&["export", session, "--server", server]).out)
}

/// How many spans of each operation the journal speaks of, at least.
///
/// Each process sends its own spans: the root may be there before the calls of the tools.
fn expected(journal: &Journal) -> [(&'static str, usize); 4] {
    let replies = journal.of_kind("reply_received");
    let calls = replies.iter().flat_map(|reply| outward_calls(reply));
    [
        ("commit", journal.of_kind("step_completed").len()),
        ("invoke_agent", journal.of_kind("step_started").len()),
        ("chat", replies.len()),
        ("execute_tool", calls.count()),
    ]
}

/// The names of the tools that a reply calls and a tools process runs.
fn outward_calls(reply: &Value) -> impl Iterator<Item = &str> {
    let calls = reply["calls"].as_array().expect("calls").iter();
    let outward = calls.filter(|call| call["effect"] != "state");
    outward.map(|call| call["call"]["name"].as_str().expect("a name"))
}

/// The spans of the run, once its root and all that the journal speaks of are there.
fn trace_of(collector: &Collector, trace_id: &str, journal: &Journal) -> Vec<TraceSpan> {
    let mine = |spans: &[TraceSpan]| -> Vec<TraceSpan> {
        let mine = spans.iter().filter(|span| span.trace_id == trace_id);
        mine.cloned().collect()
    };
    let expected = expected(journal);
    let came = |(operation, count): &(&str, usize), spans: &[TraceSpan]| {
        named(spans, operation).len() >= *count
    };
    collector.wait_for(|spans| {
        let spans = mine(spans);
        expected.iter().all(|expected| came(expected, &spans))
            && named(&spans, "invoke_workflow").len() == 1
            && orphans(&spans).is_empty()
    });
    mine(&collector.spans())
}

fn named<'a>(spans: &'a [TraceSpan], operation: &str) -> Vec<&'a TraceSpan> {
    let is_it = |span: &&TraceSpan| span.name.split(' ').next() == Some(operation);
    spans.iter().filter(is_it).collect()
}

fn children<'a>(spans: &'a [TraceSpan], parent: &TraceSpan, operation: &str) -> Vec<&'a TraceSpan> {
    let mut found = named(spans, operation);
    found.retain(|span| span.parent_span_id == parent.span_id);
    found
}

/// Spans whose parent did not come.
fn orphans(spans: &[TraceSpan]) -> Vec<&TraceSpan> {
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    let has_none =
        |span: &&TraceSpan| !span.parent_span_id.is_empty() && !ids.contains(&span.parent_span_id);
    spans.iter().filter(has_none).collect()
}

fn has(span: &TraceSpan, attributes: &[(&str, &str)]) {
    for (name, value) in attributes {
        let found = span.attributes.get(*name).map(String::as_str);
        assert_eq!(found, Some(*value), "{name} of {span:?}");
    }
}

#[test]
fn one_trace_holds_what_five_processes_did_for_a_run() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let cluster = Cluster::start(
        &site,
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())],
    );
    let server = cluster.url();
    let session = pursue(&site, &server);
    let journal = journal(&site, &server, &session);
    let tree = site.run(&["tree", &session, "--view", "json", "--server", &server]);
    let tree: Value = serde_json::from_str(&tree.out).expect("a tree");
    let trace_id = tree["trace"]["trace_id"].as_str().expect("a trace");
    let steps = journal.of_kind("step_completed").len();
    let spans = trace_of(&collector, trace_id, &journal);

    let root = named(&spans, "invoke_workflow")[0];
    assert_eq!((&*root.parent_span_id, &root.error), ("", &None));
    let run = [
        ("gen_ai.operation.name", "invoke_workflow"),
        ("gen_ai.conversation.id", &session),
        ("cairn.run", "1"),
        ("cairn.run.status", "completed"),
    ];
    has(root, &run);
    let points: Vec<&str> = root.events.iter().map(|event| &*event.name).collect();
    let count = |name: &str| points.iter().filter(|point| **point == name).count();
    assert_eq!(
        (points[0], points[points.len() - 1]),
        ("OnRunStart", "OnRunEnd")
    );
    assert_eq!(
        (count("OnStepStart"), count("OnPlanStepComplete")),
        (steps, steps)
    );

    check_work(&spans, root, &journal, &session);
    check_processes(&spans, &cluster);
    check_silence(&spans);
    let names: BTreeSet<&str> = spans.iter().map(|span| &*span.name).collect();
    println!("{} spans: {names:?}", spans.len());
}

/// The planner's, the executor's and the tools' spans, against the journal.
fn check_work(spans: &[TraceSpan], root: &TraceSpan, journal: &Journal, session: &str) {
    let plans = children(spans, root, "plan");
    assert_eq!(plans.len(), 1);
    has(
        plans[0],
        &[
            ("gen_ai.operation.name", "plan"),
            ("gen_ai.conversation.id", session),
        ],
    );
    assert_eq!(children(spans, plans[0], "chat").len(), 1);

    let replies = journal.of_kind("reply_received");
    let steps = children(spans, root, "invoke_agent");
    assert_eq!(steps.len(), journal.of_kind("step_started").len());
    for span in steps {
        has(
            span,
            &[
                ("gen_ai.operation.name", "invoke_agent"),
                ("cairn.continued", "false"),
            ],
        );
        assert_eq!(span.error, None, "{span:?}");
        let step = &span.attributes["cairn.step"];
        let number: u64 = step.parse().expect("a number");
        let mine = |event: &&&Value| event["attempt"]["step"] == number;
        let mine: Vec<_> = replies.iter().filter(mine).collect();
        let chats = children(spans, span, "chat");
        assert_eq!(chats.len(), mine.len(), "questions of step {step}");
        for chat in chats {
            let model = [
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", "offline"),
                ("gen_ai.request.model", "offline"),
                ("gen_ai.usage.input_tokens", "0"),
            ];
            has(chat, &model);
            assert_eq!(chat.kind, "client");
            assert!(chat.start_ns >= span.start_ns && chat.end_ns <= span.end_ns);
        }
        let called: BTreeSet<_> = mine.iter().flat_map(|reply| outward_calls(reply)).collect();
        let tools = children(spans, span, "execute_tool");
        let traced: BTreeSet<_> = tools
            .iter()
            .map(|tool| &*tool.attributes["gen_ai.tool.name"])
            .collect();
        assert_eq!(traced, called, "calls of step {step}");
    }
}

/// Each process has sent what it did itself, under its own number.
fn check_processes(spans: &[TraceSpan], cluster: &Cluster<'_>) {
    let mut processes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for span in spans {
        let process = span.resource["process.pid"].as_str();
        let operation = span.name.split(' ').next().unwrap();
        processes.entry(process).or_default().insert(operation);
    }
    let expected = SERVICES.map(|service| {
        let process = cluster.process_id(service).expect("it runs").to_string();
        let operations: &[&str] = match service {
            "memory" => &["commit"],
            "tools" => &["execute_tool"],
            "executor" => &["chat", "invoke_agent"],
            "planner" => &["chat", "plan"],
            _ => &["invoke_workflow"],
        };
        (process, operations.iter().copied().collect::<BTreeSet<_>>())
    });
    for (process, operations) in &expected {
        assert_eq!(processes.get(process.as_str()), Some(operations));
    }
    assert_eq!(processes.len(), 5);
}

/// Nothing of what is said to models or by them, or of what tools are given, is in it.
fn check_silence(spans: &[TraceSpan]) {
    let shown = format!("{spans:?}");
    for word in ["Redis", "docs", "one.md", "Survey"] {
        assert!(!shown.contains(word), "{word} is in the trace");
    }
}

#[test]
fn contents_are_in_the_trace_if_they_are_wanted() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint()),
        ("CAIRN_TELEMETRY__CONTENT", "true"),
    ];
    let output = site.run_with(&["run", GOAL], &variables);
    assert_eq!(output.code, Some(0), "{output:?}");
    // The command has sent its spans before it ended.
    let spans = collector.spans();
    let holds = |operation: &str, attribute: &str, text: &str| {
        let spans = named(&spans, operation);
        let mut values = spans
            .iter()
            .filter_map(|span| span.attributes.get(attribute));
        assert!(
            values.any(|value| value.contains(text)),
            "{attribute} of {operation}"
        );
    };
    holds("invoke_workflow", "cairn.goal", GOAL);
    holds("chat", "gen_ai.input.messages", GOAL);
    holds("chat", "gen_ai.output.messages", "search_files");
    holds("execute_tool", "gen_ai.tool.call.arguments", "Redis");
    assert!(orphans(&spans).is_empty());
}

/// A run that another process went on with is one trace, too, and what was taken up again says so.
#[test]
fn a_run_that_was_killed_continues_in_its_trace() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let endpoint = collector.endpoint();
    let traced = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint);
    let killed = site.run_with(&["run", GOAL], &[traced, ("CAIRN_FAIL_COMMIT", "after:3")]);
    assert_eq!(killed.signal, Some(9), "{killed:?}");
    let resumed = site.run_with(&["resume"], &[traced]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let spans = collector.spans();
    let roots = named(&spans, "invoke_workflow");
    assert_eq!(roots.len(), 1, "{roots:?}");
    let mine: Vec<_> = spans
        .iter()
        .filter(|span| span.trace_id == roots[0].trace_id)
        .collect();
    assert_eq!(mine.len(), spans.len(), "all of it is one trace");
    let continued = named(&spans, "invoke_agent");
    let continued: Vec<_> = continued
        .iter()
        .filter(|span| span.attributes["cairn.continued"] == "true")
        .collect();
    assert_eq!(continued.len(), 1, "{spans:?}");
    let run = (roots[0].trace_id.clone(), roots[0].span_id.clone());
    assert_eq!(continued[0].links, [run]);
    assert!(orphans(&spans).is_empty());
}

#[test]
fn the_usual_variables_say_who_sends_what() {
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let endpoint = collector.endpoint();
    let traced = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
        ("OTEL_SERVICE_NAME", "agents"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=other,deployment.environment.name=test",
        ),
    ];
    let none = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
    let with = |more: &[(&'static str, &'static str)]| {
        let variables: Vec<(&str, &str)> = traced.iter().chain(more).copied().collect();
        let done = site.run_with(&["run", GOAL], &variables);
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    with(&[none, ("OTEL_TRACES_SAMPLER_ARG", "0")]);
    assert!(collector.spans().is_empty());
    with(&[none, ("OTEL_TRACES_SAMPLER_ARG", "1.0")]);
    let spans = collector.spans();
    let root = named(&spans, "invoke_workflow")[0];
    assert_eq!(root.resource["service.name"], "agents");
    assert_eq!(root.resource["deployment.environment.name"], "test");
}

/// A turn that a caller's span asked for, and one without a caller.
#[test]
fn a_turn_is_traced_as_a_run_is() {
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let (site, collector) = (Site::new(CAIRN), Collector::start());
    let endpoint = collector.endpoint();
    let traced = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint);
    let _serving = site.start(&SERVE, &[traced]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut client = served::client(&site);
        talk::create(&mut client, SESSION).await;
        for (id, caller) in [("one", Some(CALLER)), ("two", None)] {
            let mut request = tonic::Request::new(talk::request(SESSION, id, "Hello!"));
            if let Some(caller) = caller {
                let caller = caller.parse().expect("a value");
                request.metadata_mut().insert("traceparent", caller);
            }
            let answer = client.submit_turn(request).await.expect("a turn");
            let mut events = answer.into_inner();
            while events.message().await.expect("an event").is_some() {}
        }
    });
    let spans = collector.wait_for(|spans| {
        let roots = named(spans, "invoke_workflow");
        roots.len() == 2
            && roots.iter().all(|root| {
                let commits = children(spans, root, "commit").len();
                commits >= 2 && children(spans, root, "invoke_agent").len() == 1
            })
    });
    let roots = named(&spans, "invoke_workflow");
    let points = ["OnRunStart", "OnTurnStart", "OnTurnEnd", "OnRunEnd"];
    for (root, run) in roots.iter().zip(["1", "2"]) {
        has(
            root,
            &[
                ("cairn.run", run),
                ("cairn.run.status", "completed"),
                ("gen_ai.conversation.id", SESSION),
            ],
        );
        let names: Vec<&str> = root.events.iter().map(|event| &*event.name).collect();
        assert_eq!(names, points);
        assert!(root.start_ns <= root.events[0].at_ns && root.events[3].at_ns <= root.end_ns);
    }
    assert_eq!(roots[0].trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(roots[0].parent_span_id, "00f067aa0ba902b7");
    let caller = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let caller = (caller.0.to_owned(), caller.1.to_owned());
    assert_eq!(roots[0].links, [caller]);
    assert!(roots[1].links.is_empty());
    assert_ne!(roots[1].trace_id, roots[0].trace_id);
    assert_eq!(roots[1].parent_span_id, "");
    let mut orphans = orphans(&spans);
    orphans.retain(|span| span.span_id != roots[0].span_id);
    assert!(orphans.is_empty(), "{orphans:?}");
}
