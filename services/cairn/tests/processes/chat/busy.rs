//! Conversations in a session that works, is paused, or has done other things before.

use super::{begin, chat, end, model, say, server, session};
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::eventually;
use cairn_testkit::model_server::{parts, reply};
use cairn_testkit::{Output, Site};
use std::io::{BufRead as _, BufReader};
use std::process::Child;

/// Reads standard error to a line with this text, and returns the program with what is left of it.
fn wait_for(child: &mut Child, text: &str) -> String {
    let mut lines = BufReader::new(child.stderr.as_mut().expect("standard error"));
    let mut seen = String::new();
    while !seen.contains(text) {
        let read = lines.read_line(&mut seen).expect("a line");
        assert!(read > 0, "no {text:?} in {seen:?}");
    }
    seen
}

fn says(done: &Output, text: &str) {
    assert!(done.err.contains(text), "no {text:?} in {done:?}");
}

#[test]
fn a_conversation_of_another_context_waits_for_the_session() {
    let (held, answer) = parts();
    let answers = vec![reply("a", "First.", &[]), answer, reply("c", "Aside.", &[])];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    let first = chat(&site, &server, &[], "One?\n");
    let session = session(&first);
    assert_eq!(
        site.run(&["context", "new", &session, "side"]).code,
        Some(0)
    );
    let mut main = begin(&site, &server, &[&session], "Two?\n");
    wait_for(&mut main, "session ");
    held.text("Second.");
    eventually("the second request", || {
        (asked.lock().expect("requests").len() == 2).then_some(())
    });
    let mut side = begin(&site, &server, &[&session, "--context", "side"], "Aside?\n");
    let seen = wait_for(&mut side, "the conversation begins when it has ended");
    assert!(seen.contains("run 2 is a turn of context main"), "{seen}");
    held.end("end", &[]);
    let main = end(main);
    assert_eq!(
        (main.code, main.out.as_str()),
        (Some(0), "Second.\n"),
        "{main:?}"
    );
    let side = end(side);
    assert_eq!(
        (side.code, side.out.as_str()),
        (Some(0), "Aside.\n"),
        "{side:?}"
    );
    let asked = asked.lock().expect("requests");
    assert_eq!(
        super::texts(&asked[2]),
        ["Aside?"],
        "nothing of main is in it"
    );
}

/// The client of the test has no model but the offline one, and does not know the name of the other.
#[test]
fn a_conversation_through_the_process_that_holds_the_store_has_its_model() {
    let (server, _) = server(vec![reply("a", "First.", &[]), reply("b", "Second.", &[])]);
    let site = Site::new(CAIRN);
    let variables = model(&server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let _serving = site.start(&serve, &variables);
    for (arguments, expected) in [
        (&["chat"][..], "First.\n"),
        (&["chat", "--model", "openai"][..], "Second.\n"),
    ] {
        let done = end(say(&mut site.command(arguments), "Hello?\n"));
        let seen = (done.code, done.out.as_str());
        assert_eq!(seen, (Some(0), expected), "{done:?}");
    }
}

#[test]
fn the_reply_to_a_turn_of_another_client_is_no_answer() {
    let (held, answer) = parts();
    let (server, asked) = server(vec![answer, reply("b", "Second.", &[])]);
    let site = Site::new(CAIRN);
    let mut first = begin(&site, &server, &[], "One?\n");
    let seen = wait_for(&mut first, "session ");
    let session = seen.rsplit("session ").next().expect("its id").trim();
    eventually("the first request", || {
        (asked.lock().expect("requests").len() == 1).then_some(())
    });
    let mut second = begin(&site, &server, &[session], "Two?\n");
    wait_for(&mut second, "this turn was under way");
    held.text("First.");
    held.end("end", &[]);
    let first = end(first);
    let seen = (first.code, first.out.as_str());
    assert_eq!(seen, (Some(0), "First.\n"), "{first:?}");
    let second = end(second);
    let seen = (second.code, second.out.as_str());
    assert_eq!(seen, (Some(0), "Second.\n"), "{second:?}");
    says(&second, "First.");
}

#[test]
fn a_message_that_is_too_large_is_not_sent_and_the_next_one_is() {
    for bytes in [3 << 20, 5 << 20] {
        let (server, asked) = server(vec![reply("a", "Yes.", &[])]);
        let site = Site::new(CAIRN);
        let lines = format!("{}\nTwo?\n", "x".repeat(bytes));
        let done = chat(&site, &server, &[], &lines);
        let seen = (done.code, done.out.as_str());
        assert_eq!(seen, (Some(1), "Yes.\n"), "{done:?}");
        says(&done, "at most 2097152 are allowed: it was not sent");
        assert_eq!(super::texts(&asked.lock().expect("requests")[0]), ["Two?"]);
    }
}

/// Another client destroys the context in which the conversation continues.
#[test]
fn a_conversation_in_a_context_that_is_gone_says_how_to_continue() {
    let (server, _) = server(vec![reply("a", "First.", &[])]);
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "One?\n"));
    assert_eq!(
        site.run(&["context", "new", &session, "side"]).code,
        Some(0)
    );
    let mut command = site.command(&["chat", &session, "--context", "side"]);
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("› ");
    assert_eq!(
        site.run(&["context", "destroy", &session, "side"]).code,
        Some(0)
    );
    screen.types("Two?\r");
    screen.wait_for("enter /context main to continue there");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("come back with: cairn chat ");
    screen.wait_for(&session);
    let rest = screen.wait_for("\n");
    assert!(!rest.contains("--context"), "{rest}");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
}

/// Another client makes another context the active one.
#[test]
fn a_conversation_says_when_it_goes_to_another_context() {
    let answers = vec![reply("a", "First.", &[]), reply("b", "Second.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "One?\n"));
    assert_eq!(
        site.run(&["context", "new", &session, "side"]).code,
        Some(0)
    );
    let mut command = site.command(&["chat", &session]);
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("› ");
    assert_eq!(
        site.run(&["context", "switch", &session, "side"]).code,
        Some(0)
    );
    screen.types("Two?\r");
    screen.wait_for("the active context is side now, and this turn continues it");
    screen.wait_for("Second.");
}

#[test]
fn a_paused_turn_ends_a_conversation_with_the_way_to_continue() {
    let (held, answer) = parts();
    let (server, asked) = server(vec![reply("a", "First.", &[]), answer]);
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "One?\n"));
    let mut running = begin(&site, &server, &[&session], "Two?\nThree?\n");
    wait_for(&mut running, "session ");
    eventually("the second request", || {
        (asked.lock().expect("requests").len() == 2).then_some(())
    });
    let paused = site.run(&["pause", &session]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let done = end(running);
    assert_eq!((done.code, done.out.as_str()), (Some(3), ""), "{done:?}");
    says(&done, "paused; continue with: cairn resume");
    drop(held);
    let again = chat(&site, &server, &[&session], "Three?\n");
    assert_eq!((again.code, again.out.as_str()), (Some(3), ""), "{again:?}");
    says(&again, "paused; continue with: cairn resume");
}

#[test]
fn the_reply_of_a_turn_is_its_answer() {
    let (server, _) = server(vec![reply("a", "First.", &[]), reply("b", "Second.", &[])]);
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "One?\nTwo?\n"));
    let shown = site.run(&["show", &session, "--json"]);
    assert!(shown.out.contains(r#""answer":"Second.""#), "{shown:?}");
    let shown = site.run(&["show", &session]);
    assert!(!shown.out.contains("plan show"), "{shown:?}");
    let tree = site.run(&["tree", &session]);
    assert!(tree.out.contains("» Second."), "{tree:?}");
    assert!(!tree.out.lines().any(|line| line.trim() == "»"), "{tree:?}");
    let log = site.run(&["log", &session]);
    assert!(log.out.contains("< Two?"), "{log:?}");
    let watched = site.run(&["watch", &session]);
    assert!(watched.out.contains("turn: Two?"), "{watched:?}");
}

#[test]
fn a_plan_before_a_turn_is_shown_and_cannot_be_changed() {
    let site = Site::new(CAIRN);
    let run = site.run(&["run", "--json", "Which files mention lease?"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let (server, _) = server(vec![reply("a", "First.", &[])]);
    let sessions = site.run(&["sessions", "--json"]);
    let listed: serde_json::Value = sessions
        .out
        .lines()
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .expect("a session");
    let session = listed["id"].as_str().expect("its id").to_owned();
    let done = chat(&site, &server, &[&session], "One?\n");
    assert_eq!(done.code, Some(0), "{done:?}");
    let plan = site.run(&["plan", "show", &session]);
    assert!(plan.out.contains("run 1, revision 1"), "{plan:?}");
    let mut feedback = site.command(&["feedback", &session, "--yes", "Shorter."]);
    let feedback = end(feedback
        .envs(model(&server))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started"));
    assert_eq!(feedback.code, Some(1), "{feedback:?}");
    says(
        &feedback,
        "run 2 is a turn of a conversation and has no plan",
    );
    says(&feedback, "run 1 has a plan");
    says(&feedback, &format!("cairn fork {session} --at "));
}
