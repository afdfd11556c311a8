//! Ctrl-C in a conversation at a terminal: the turn ends with its work, its program ends, and what is typed then is
//! sent.

use super::{model, server, texts};
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::model_server::{parts, reply};
use cairn_testkit::{Site, eventually, free_port};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::File;
use std::time::{Duration, Instant};

/// Far more than an interrupt takes, and far less than the program lasts.
const SOON: Duration = Duration::from_secs(10);

/// A program that holds a lock, it and what it has started, for as long as one of them lives.
const PATIENT: &str = r#"
[[tools.commands]]
name = "patient"
description = "Lasts."
argv = ["sh", "-c", "exec 9>held; flock -s 9; (sleep 1000 & sleep 1000) & echo x >began; wait"]
effect = "effectful"
time_limit_ms = 600000
parameters = { type = "object" }
"#;

fn is_free(site: &Site) -> Option<()> {
    let held = File::open(site.path().join("held")).expect("the lock");
    held.try_lock().ok()
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_what_the_turn_did() {
    let answers = vec![
        reply("a", "I begin.", &[("patient", json!({}))]),
        reply("b", "It was interrupted.", &[]),
    ];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    site.append("cairn.toml", PATIENT);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("Begin.\r");
    screen.wait_for("→ patient");
    eventually("the program begins", || site.read("began"));
    let pressed = Instant::now();
    screen.types("\u{3}");
    screen.wait_for("the turn was cancelled");
    screen.wait_for("› ");
    let shown = pressed.elapsed();
    eventually("all of its processes end", || is_free(&site));
    let gone = pressed.elapsed();
    println!("after Ctrl-C: prompt in {shown:?}, program gone in {gone:?}");
    assert!(shown < SOON && gone < SOON, "{shown:?}, {gone:?}");
    screen.types("And?\r");
    screen.wait_for("It was interrupted.");
    let asked = asked.lock().expect("requests");
    let said = texts(&asked[1]);
    assert_eq!((said[0], said[1]), ("Begin.", "I begin."));
    assert!(said[2].contains("outcome unknown"), "{said:?}");
    assert_eq!(said[3..], ["And?"]);
}

#[test]
fn a_line_that_is_typed_with_the_interrupt_is_the_next_turn() {
    let (release, answer) = parts();
    // The text after a call is seen from its beginning: the stream of the turn is open by then.
    let look = reply("a", "", &[("look", json!({"what": "it"}))]);
    let (server, asked) = server(vec![look, answer, reply("b", "Here.", &[])]);
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("Begin.\r");
    screen.wait_for("→ look");
    release.text("It begins ");
    screen.wait_for("It begins");
    screen.types("\u{3}And now?\r");
    screen.wait_for("Here.");
    let asked = asked.lock().expect("requests");
    assert_eq!(texts(&asked[2]).last(), Some(&"And now?"));
}

/// A server that stands still takes no interrupt.
#[test]
fn a_person_who_interrupts_twice_leaves() {
    let (release, answer) = parts();
    let look = reply("a", "", &[("look", json!({"what": "it"}))]);
    let (model_server, _) = server(vec![look, answer]);
    let site = Site::new(CAIRN);
    let address = format!("127.0.0.1:{}", free_port());
    let variables = model(&model_server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let serving = site.start(&["serve", "--listen", &address, "--json"], &variables);
    let url = format!("http://{address}");
    let mut screen = Screen::of(&mut site.command(&["chat", "--server", &url]));
    screen.wait_for("› ");
    screen.types("Begin.\r");
    screen.wait_for("→ look");
    release.text("It begins ");
    screen.wait_for("It begins");
    let process = i32::try_from(serving.id()).ok().and_then(Pid::from_raw);
    let process = process.expect("its process");
    kill_process(process, Signal::STOP).expect("it is there");
    screen.types("\u{3}");
    screen.wait_for("interrupting the turn");
    screen.types("\u{3}");
    screen.wait_for("come back with: cairn");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    kill_process(process, Signal::CONT).expect("it is there");
}
