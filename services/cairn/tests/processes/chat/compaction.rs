//! Older messages of a conversation give way to a summary, by `/compact` and by `cairn context compact`.

use super::{chat, end, model, say, server, session};
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, Output, Site};
use serde_json::{Value, json};

#[test]
fn a_summary_of_older_messages_takes_their_place_in_a_conversation() {
    let replies = ["First.", "Second.", "Third.", "One came first.", "Fourth."];
    let (server, asked) = server(replies.map(|text| reply("r", text, &[])).to_vec());
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("/compact\r");
    screen.wait_for("the session begins with your first message");
    for (said, reply) in [
        ("One?", "First."),
        ("Two?", "Second."),
        ("Three?", "Third."),
    ] {
        screen.wait_for("› ");
        screen.types(&format!("{said}\r"));
        screen.wait_for(reply);
    }
    screen.wait_for("› ");
    screen.types("/compact the first question\r");
    screen.wait_for("2 messages became a summary (about ");
    screen.wait_for("tokens in");
    screen.wait_for("› ");
    screen.types("Four?\r");
    screen.wait_for("Fourth.");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("come back with: cairn chat s-");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    let asked = asked.lock().expect("requests");
    let question = super::texts(&asked[3]);
    assert_eq!(question[..2], ["One?", "First."]);
    assert!(question[2].contains("the first question"), "{question:?}");
    let sent = super::texts(&asked[4]);
    assert!(sent[0].ends_with("\n\nOne came first."), "{sent:?}");
    assert_eq!(sent[1..5], ["Two?", "Second.", "Three?", "Third."]);
    assert!(sent[5].starts_with("Four?"), "{sent:?}");
}

fn compact(site: &Site, server: &ModelServer, arguments: &[&str]) -> Output {
    let mut command = site.command(&[&["context", "compact"], arguments].concat());
    end(say(command.envs(model(server)), ""))
}

#[test]
fn a_context_is_compacted_by_a_command() {
    let answers = vec![
        reply("a", "First.", &[]),
        reply("b", "Second.", &[]),
        Answer::Whole(400, "no such model".to_owned()),
        reply("c", "It was about One.", &[]),
    ];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    let session = session(&chat(&site, &server, &[], "One?\nTwo?\n"));
    let unnamed = compact(&site, &server, &[]);
    assert_eq!(unnamed.code, Some(2), "{unnamed:?}");
    assert!(unnamed.err.contains("name the session"), "{unnamed:?}");
    let failed = compact(&site, &server, &[&session, "--keep", "2"]);
    assert_eq!((failed.code, &*failed.out), (Some(1), ""), "{failed:?}");
    let why = "the compaction failed, and its messages stay: the model wrote no summary";
    assert!(failed.err.contains(why), "{failed:?}");
    let shown = site.run(&["context", "show", &session]).out;
    assert!(
        shown.contains("One?") && !shown.contains("summary"),
        "{shown}"
    );
    site.write("prompt.md", "Say it in one sentence.\n");
    let done = compact(
        &site,
        &server,
        &[&session, "--keep", "2", "--prompt", "@prompt.md", "--json"],
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    let said: Value = serde_json::from_str(done.out.trim()).expect("one object");
    assert_eq!(
        (&said["run"], &said["replaced"]),
        (&json!(4), &json!(2)),
        "{said}"
    );
    let shown = site.run(&["context", "show", &session]).out;
    let heading = "   0  user  (summary of older messages)";
    assert!(
        shown.starts_with(heading) && shown.contains("It was about One."),
        "{shown}"
    );
    assert!(!shown.contains("One?") && shown.contains("Two?"), "{shown}");
    let log = site.run(&["log", &session]).out;
    assert!(log.contains("> It was about One."), "{log}");
    let watched = site.run(&["watch", &session]).out;
    let line = "context main: 2 messages became a summary (about ";
    assert!(watched.contains(line), "{watched}");
    let nothing = compact(&site, &server, &[&session, "--keep", "2"]);
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert!(
        nothing.out.contains("there is nothing to compact"),
        "{nothing:?}"
    );
    let asked = asked.lock().expect("requests");
    assert_eq!(asked.len(), 4);
    let prompt = super::texts(&asked[3]);
    assert_eq!(prompt.last(), Some(&"Say it in one sentence."));
}
