//! `cairn chat` with lines from a pipe: each is a turn, and a turn survives the end of its server.

mod approving;
mod busy;
mod compaction;
mod interrupt;
mod terminal;
mod typing;

use crate::support::{CAIRN, shown};
use cairn_testkit::model_server::{Answer, Release, parts, reply};

use cairn_proto::event::FinishReason;
use cairn_proto::json::from_line;
use cairn_proto::orchestrator::SubmitTurnResponse;
use cairn_proto::orchestrator::turn_event::Event;
use cairn_testkit::{ModelServer, Output, Site, free_port};
use serde_json::{Value, json};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

type Asked = Arc<Mutex<Vec<Value>>>;

/// A server that answers in this order, and what it was asked.
fn server(answers: Vec<Answer>) -> (ModelServer, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let answers = Mutex::new(answers.into_iter());
    let server = ModelServer::start(move |body| {
        seen.lock().expect("requests").push(body.clone());
        let next = answers.lock().expect("answers").next();
        next.unwrap_or_else(|| Answer::Whole(400, "nothing more to say".to_owned()))
    });
    (server, asked)
}

fn model(server: &ModelServer) -> [(&'static str, String); 2] {
    let url = server.url().to_owned();
    let key = "sk-none-needed".to_owned();
    [("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", key)]
}

/// Starts a conversation with these lines.
fn begin(site: &Site, server: &ModelServer, arguments: &[&str], lines: &str) -> Child {
    let mut command = site.command(&[&["chat"], arguments].concat());
    say(command.envs(model(server)), lines)
}

/// Starts a command with these lines.
fn say(command: &mut Command, lines: &str) -> Child {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(lines.as_bytes()).expect("lines");
    child
}

fn chat(site: &Site, server: &ModelServer, arguments: &[&str], lines: &str) -> Output {
    end(begin(site, server, arguments, lines))
}

fn end(child: Child) -> Output {
    let done = child.wait_with_output().expect("its end");
    Output {
        code: done.status.code(),
        signal: done.status.signal(),
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// The session that a conversation names first.
fn session(output: &Output) -> String {
    let mut lines = output.err.lines();
    let named = lines.find_map(|line| line.strip_prefix("cairn: session "));
    named.expect("a session").to_owned()
}

/// The only question that waits.
fn waiting(site: &Site) -> String {
    let pending = site.run(&["pending", "--json"]);
    let line: Value = serde_json::from_str(pending.out.trim()).expect("one question");
    line["id"].as_str().expect("an id").to_owned()
}

/// The texts of the messages that a model was sent, but for its system prompt.
fn texts(asked: &Value) -> Vec<&str> {
    let messages = asked["messages"].as_array().expect("messages").iter();
    let others = messages.filter(|message| message["role"] != "system");
    others
        .map(|message| {
            let content = &message["content"];
            content
                .as_str()
                .or_else(|| content[0]["text"].as_str())
                .unwrap_or_default()
        })
        .collect()
}

#[test]
fn each_line_is_a_turn_and_the_conversation_continues_in_another_process() {
    let third = "Third:\n\t\u{1b}[1mbold\u{1b}[0m \n";
    let answers = ["First.", "Second.", third];
    let (server, asked) = server(answers.map(|text| reply("r", text, &[])).to_vec());
    let site = Site::new(CAIRN);
    let done = chat(&site, &server, &[], "\u{feff}One?\n\nTwo?\n");
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "First.\nSecond.\n"),
        "{done:?}"
    );
    assert!(done.err.contains("1,000 tokens in, 100 out"), "{done:?}");
    let again = chat(&site, &server, &[&session(&done)], "Three?");
    // A program reads it, and no terminal.
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "Third:\n\t\u{1b}[1mbold\u{1b}[0m \n"),
        "{again:?}"
    );
    let asked = asked.lock().expect("requests");
    assert_eq!(
        texts(&asked[2]),
        ["One?", "First.", "Two?", "Second.", "Three?"]
    );
}

/// A session begins with the first message, and a new one has no context but main.
#[test]
fn a_conversation_in_which_nothing_is_said_leaves_no_session() {
    let (server, asked) = server(vec![reply("r", "Yes.", &[])]);
    let site = Site::new(CAIRN);
    let silent = chat(&site, &server, &["--context", "main"], "\n \n");
    assert_eq!((silent.code, &*silent.out), (Some(0), ""), "{silent:?}");
    let unknown = chat(&site, &server, &["--context", "nope"], "One?");
    assert_eq!((unknown.code, &*unknown.out), (Some(2), ""), "{unknown:?}");
    assert!(
        unknown.err.contains("a new session has no context nope"),
        "{unknown:?}"
    );
    assert_eq!(asked.lock().expect("requests").len(), 0);
    assert_eq!(site.run(&["sessions", "--json"]).out, "");
    let said = chat(&site, &server, &["--context", "main"], "One?");
    assert_eq!((said.code, &*said.out), (Some(0), "Yes.\n"), "{said:?}");
    let sessions = site.run(&["sessions", "--json"]).out;
    assert_eq!(sessions.lines().count(), 1, "{sessions}");
    assert!(sessions.contains(&session(&said)), "{sessions}");
}

#[test]
fn a_turn_is_a_stream_of_json_lines() {
    let call = [("look", json!({"what": "there"}))];
    let answers = vec![reply("a", "I look.", &call), reply("b", "Seen.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let done = chat(&site, &server, &["--json"], "Look!");
    assert_eq!(done.code, Some(0), "{done:?}");
    let responses = done.out.lines().map(|line| {
        let name = "cairn.orchestrator.v1.SubmitTurnResponse";
        from_line::<SubmitTurnResponse>(name, line).expect("protobuf JSON")
    });
    let events = responses.flat_map(|response| response.events);
    let events: Vec<Event> = events.filter_map(|event| event.event).collect();
    let (mut text, mut others) = (String::new(), Vec::new());
    for event in events {
        match event {
            Event::Text(delta) => text += &delta.text,
            Event::Started(started) => others.push(format!("{} begins", started.context)),
            Event::ToolCall(called) => others.push(called.call.expect("a call").name),
            Event::ToolResult(result) => {
                assert!(!result.result.expect("a result").is_error);
            }
            Event::Complete(complete) => {
                assert_eq!(complete.reason(), FinishReason::Stop);
                others.push(complete.response);
            }
            _ => {}
        }
    }
    assert_eq!(text, "I look.Seen.");
    assert_eq!(others, ["main begins", "look", "Seen."]);
    assert_eq!(site.looks().times(r#"{"what":"there"}"#), 1);
}

#[test]
fn a_turn_that_fails_is_the_exit_code_and_the_next_line_is_a_turn_all_the_same() {
    let refused = Answer::Whole(400, "no such model".to_owned());
    let (server, asked) = server(vec![refused, reply("r", "Yes.", &[])]);
    let site = Site::new(CAIRN);
    let done = chat(&site, &server, &[], "One?\nTwo?\n");
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(1), "Yes.\n"),
        "{done:?}"
    );
    assert!(done.err.contains("the turn failed"), "{done:?}");
    let asked = asked.lock().expect("requests");
    assert_eq!(
        texts(&asked[1]),
        ["Two?"],
        "nothing of the first turn is kept"
    );
}

#[test]
fn a_call_that_needs_approval_ends_the_command_and_the_turn_continues_after_it() {
    let call = [("record", json!({"what": "it"}))];
    let answers = vec![reply("a", "", &call), reply("b", "Recorded.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    site.write(
        "cairn.toml",
        &format!("[tools]\nask = [\"record\"]\n{settings}"),
    );
    let done = chat(&site, &server, &[], "Record it.\nAnd then?\n");
    assert_eq!((done.code, done.out.as_str()), (Some(3), ""), "{done:?}");
    assert!(done.err.contains("cairn decide"), "{done:?}");
    let rest = "the rest of the input was not sent";
    assert!(done.err.contains(rest), "{done:?}");
    let session = session(&done);
    let approved = site.run(&["approve", &session, &waiting(&site), "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let again = chat(&site, &server, &[&session], "");
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "Recorded.\n"),
        "{again:?}"
    );
    assert_eq!(site.ledger().times(r#"{"what":"it"}"#), 1);
}

/// Reads lines of standard error to the first one with this text.
fn wait_for(err: &mut impl std::io::BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(err.read_line(&mut line).expect("text") > 0, "no {text}");
    }
}

/// Lets a part go, and ends when the client has it.
fn send(release: &Release, text: &str, out: &mut impl std::io::BufRead) {
    release.text(text);
    wait_for(out, text);
}

#[test]
fn a_turn_continues_after_its_server_was_killed() {
    let ((first, one), (second, two)) = (parts(), parts());
    // The text after a call is seen from its beginning: the stream of the turn is open by then.
    let look = reply("a", "", &[("look", json!({"what": "it"}))]);
    let (model_server, _) = server(vec![look, one, two]);
    let site = Site::new(CAIRN);
    let address = format!("127.0.0.1:{}", free_port());
    let variables = model(&model_server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let serve = ["serve", "--listen", &address, "--json"];
    let mut serving = site.start(&serve, &variables);
    let url = format!("http://{address}");
    let arguments = ["--server", &url, "--json"];
    let mut child = begin(&site, &model_server, &arguments, "Tell!");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut err = BufReader::new(child.stderr.take().expect("its errors"));
    wait_for(&mut out, "toolCall");
    send(&first, "Void", &mut out);
    serving.kill();
    wait_for(&mut err, "connection lost");
    let _serving = site.start(&serve, &variables);
    wait_for(&mut err, "connected again");
    send(&second, "Whole", &mut out);
    second.end("end", &[]);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("its end").code(), Some(0));
    let last: Value = serde_json::from_str(rest.lines().last().expect("a line")).expect("JSON");
    let events = last["events"].as_array().expect("events");
    let complete = events.iter().find_map(|event| event.get("complete"));
    assert_eq!(complete.expect("the end")["response"], "Whole", "{rest}");
}

/// What a command prints that succeeds.
fn run(site: &Site, arguments: &[&str]) -> String {
    let done = site.run(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.out
}

/// Of a context `copy` with two messages, and of `main`, which has changed since version 0.
fn removals_that_do_not_fit_are_refused(site: &Site, session: &str) {
    let old = [
        "context",
        "remove",
        session,
        "main",
        "0-1",
        "--version",
        "0",
    ];
    let refused = site.run(&old);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("version 0 was expected"),
        "{refused:?}"
    );
    let refused = site.run(&["context", "remove", session, "copy", "1-2"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let numbers = "has 2 messages, with the numbers 0 to 1";
    assert!(refused.err.contains(numbers), "{refused:?}");
    let show = format!("cairn context show {session} --context copy");
    assert!(refused.err.contains(&show), "{refused:?}");
}

#[test]
fn contexts_are_exported_imported_and_destroyed() {
    let answers = ["Begun.", "First.", "Second."];
    let (server, asked) = server(answers.map(|text| reply("r", text, &[])).to_vec());
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "Zero?"));
    let run = |arguments: &[&str]| run(&site, arguments);
    run(&["context", "new", &session, "draft"]);
    let draft = [session.as_str(), "--context", "draft"];
    let done = chat(&site, &server, &draft, "One?");
    assert_eq!(done.code, Some(0), "{done:?}");
    let export = ["context", "export", &session, "--context", "draft"];
    let exported = run(&[&export[..], &["--output", "draft.jsonl"]].concat());
    assert_eq!(site.read("draft.jsonl"), Some(run(&export)));
    let made = run(&["context", "new", &session, "copy", "--system", "Be brief."]);
    let added = run(&[
        "context",
        "import",
        &session,
        "draft.jsonl",
        "--context",
        "copy",
    ]);
    let arguments = [session.as_str(), "--context", "copy"];
    let again = chat(&site, &server, &arguments, "Two?");
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "Second.\n"),
        "{again:?}"
    );
    assert_eq!(
        texts(&asked.lock().expect("requests")[2]),
        ["One?", "First.", "Two?"]
    );
    let messages = run(&["context", "show", &session, "--context", "copy"]);
    let destroyed = run(&[
        "context",
        "destroy",
        &session,
        "draft",
        "--conclude",
        "tone=dry",
    ]);
    assert_eq!(
        run(&["memory", "get", "tone", "--session", &session]),
        "dry\n"
    );
    let set = run(&["context", "set", &session, "copy", "--window", "2"]);
    let removed = run(&["context", "remove", &session, "copy", "0-1"]);
    let listed = run(&["context", "list", &session]);
    let texts = [
        exported, made, added, messages, destroyed, set, removed, listed,
    ];
    let texts = texts.map(|text| format!("---\n{text}"));
    shown::settings(&site).bind(|| insta::assert_snapshot!("contexts", texts.concat()));
    removals_that_do_not_fit_are_refused(&site, &session);
    let missing = chat(&site, &server, &[&session, "--context", "draft"], "Three?");
    assert_eq!(missing.code, Some(2), "{missing:?}");
}
