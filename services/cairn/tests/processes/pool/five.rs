//! A plan that names each of the five capabilities of the source, carried out with real tools.

use crate::support::chain;
use crate::support::place::Place;
use crate::support::pool::{Api, Waits, offered, step_needing};
use crate::support::served::{add_model, done, title, turn};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, TestStore};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Each capability with the tool that its step calls.
fn calls() -> [(&'static str, &'static str, Value); 5] {
    let written = json!({"path": "cairn-out/note.md", "content": "two stores\n"});
    [
        (
            "web_search",
            "web_search",
            json!({"query": "durable agents", "max_results": 2}),
        ),
        ("file_ops", "write_file", written),
        (
            "code_generation",
            "code_generation_tool",
            json!({"task": "Print a line.", "paths": ["main.rs"]}),
        ),
        (
            "shell_exec",
            "shell_exec",
            json!({"command": "echo from-the-shell"}),
        ),
        ("report_generation", "report_generator", json!({})),
    ]
}

/// A provider of searches in the format of SearXNG, and the lines of the requests that it gets.
fn searches() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!(
        "http://{}/search",
        listener.local_addr().expect("its address")
    );
    let (sender, asked) = channel();
    let found = json!({"query": "durable agents", "results": [
        {"title": "Durable execution", "url": "https://one.example/", "content": "A journal of each call."},
        {"title": "Agents", "url": "https://two.example/", "content": "Agents with tools."},
        {"title": "Third", "url": "https://three.example/", "content": "One too many."}]});
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            // After the test has ended, nothing reads the lines.
            let _ = sender.send(first);
            let body = found.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            // A client that goes away finds its own error.
            let _ = (&stream).write_all((head + &body).as_bytes());
        }
    });
    (url, asked)
}

/// The model: in each step it calls the tool, and then ends the step. Asked outside of a step, it writes the code.
fn plays(body: &Value) -> Answer {
    let Some(step) = title(body) else {
        let files =
            json!({"files": [{"path": "main.rs", "text": "fn main() { println!(\"line\"); }\n"}]});
        return reply("code", &files.to_string(), &[]);
    };
    let all = calls();
    let (_, tool, arguments) = all.iter().find(|it| it.0 == step).expect("a step");
    match turn(body) {
        0 if !offered(body).contains(*tool) => done(&format!("{tool} is not offered")),
        0 => reply(&step, "I try.", &[(*tool, arguments.clone())]),
        _ => done("called"),
    }
}

/// P4: each of the five capabilities of the source can be had, and its tool does what it says: a search over HTTP,
/// a file, code by one request of the model whose price counts for the run, a command that a rule allows, a report.
#[test]
fn a_plan_that_names_all_five_capabilities_runs() {
    let (url, asked) = searches();
    let model = ModelServer::start(plays);
    let mut place = Place::over(TestStore::file());
    add_model(&place.site, &model);
    let settings = format!(
        "\n[tools.web_search]\nurl = \"{url}\"\n\n[[tools.rules]]\ntool = \"shell_exec\"\nanswer = \"allow\"\n"
    );
    place.site.append("cairn.toml", &settings);
    place.keep_serving();
    let api = Api::at(place.address());
    let steps = calls().map(|(capability, ..)| step_needing(capability, &[capability]));
    api.start("s", chain(steps.to_vec()));
    let events = api.until_end("s");
    let last = events.last().and_then(|(_, event)| event.kind.as_ref());
    assert!(matches!(last, Some(Kind::RunCompleted(_))), "{last:?}");

    let request = asked.try_recv().expect("a search");
    assert!(request.starts_with("GET /search?"), "{request}");
    assert!(request.contains("format=json"), "{request}");
    assert!(request.contains("durable"), "{request}");
    let note = place.site.read("cairn-out/note.md");
    assert_eq!(note.as_deref(), Some("two stores\n"));
    assert_eq!(place.site.read("main.rs"), None, "the tool writes nothing");
    check_results(&events);
    // Two questions of each step, and one of the tool for code.
    let usage = api.run("s").usage.expect("what the run used up");
    assert_eq!((usage.model_calls, usage.input_tokens), (11, 11_000));
    let waits = Waits::checked(&events);
    assert_eq!((waits.busy, waits.none, waits.placed), (0, 0, 5));
}

/// The result of each call has what its tool found, made or ran.
fn check_results(events: &[(u64, wire::Event)]) {
    let results = events.iter().filter_map(|(_, event)| match &event.kind {
        Some(Kind::CallFinished(finished)) => Some(finished),
        _ => None,
    });
    let results: Vec<&wire::CallFinished> = results.collect();
    let failed: Vec<_> = results.iter().filter(|it| it.is_error).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let of_step = |step: u32| {
        let is_of = |it: &&&wire::CallFinished| {
            let attempt = it.call.as_ref().and_then(|call| call.attempt.as_ref());
            attempt.is_some_and(|attempt| attempt.step == step)
        };
        *results.iter().find(is_of).expect("a result in this step")
    };
    let search = &of_step(1).output;
    assert!(search.contains("https://one.example/"), "{search}");
    assert!(search.contains("https://two.example/"), "{search}");
    assert!(!search.contains("https://three.example/"), "{search}");
    let code = of_step(3);
    assert!(code.output.contains("main.rs"), "{code:?}");
    assert!(code.output.contains("fn main()"), "{code:?}");
    let usage = code.usage.as_ref().expect("what the request used up");
    assert_eq!((usage.input_tokens, usage.output_tokens), (1000, 100));
    assert_eq!(code.model, "served-1");
    assert!(of_step(4).output.contains("from-the-shell"));
    let report = &of_step(5).output;
    assert!(report.contains("web_search"), "{report}");
}
