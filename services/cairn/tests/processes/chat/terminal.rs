//! A conversation at a terminal: text as it comes, a message to the running turn, Ctrl-C and Ctrl-D.

use super::{model, server, waiting};
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::Site;
use cairn_testkit::model_server::{parts, reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[test]
fn keys_steer_and_cancel_a_turn_and_leave_the_conversation() {
    let ((first, one), (second, two)) = (parts(), parts());
    // The text after a call is seen from its beginning: the stream of the turn is open by then.
    let look = || reply("a", "", &[("look", json!({"what": "it"}))]);
    let answers = vec![
        look(),
        one,
        reply("b", "Short.", &[]),
        look(),
        two,
        reply("d", "Here.", &[]),
    ];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("come back with: cairn chat s-");
    screen.wait_for("› ");
    screen.types("Tell me.\r");
    screen.wait_for("→ look");
    first.text("It is a long ");
    screen.wait_for("It is a long");
    screen.types("Shorter!\r");
    screen.wait_for("the model reads this before the turn ends");
    first.text("story.");
    first.end("end", &[]);
    screen.wait_for("Short.");
    screen.wait_for("tokens in");
    screen.wait_for("› ");
    screen.types("Again.\r");
    screen.wait_for("→ look");
    second.text("Once more ");
    screen.wait_for("Once more");
    screen.types("\u{3}");
    screen.wait_for("the turn was cancelled");
    screen.wait_for("› ");
    screen.types("Are you there?\r");
    screen.wait_for("Here.");
    screen.wait_for("› ");
    screen.types("/agents\r");
    screen.wait_for("there is no command /agents");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("come back with: cairn chat s-");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    let asked = asked.lock().expect("requests");
    let said = super::texts(&asked[2]);
    assert_eq!(said[said.len() - 2..], ["It is a long story.", "Shorter!"]);
    let said = super::texts(&asked[5]);
    let again = said.iter().position(|text| *text == "Again.");
    let again = again.expect("what the cancelled turn did stays");
    assert_eq!(said[again - 1], "Short.");
    // Its call and the result. The reply that had begun is no reply.
    assert_eq!(said[again + 1], "");
    assert_eq!((said.len(), said[again + 3]), (again + 4, "Are you there?"));
}

#[test]
fn a_conversation_continues_in_a_new_session_with_its_last_turns() {
    let answers = ["First.", "Second."].map(|text| reply("r", text, &[]));
    let (server, asked) = server(answers.to_vec());
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("/continue\r");
    screen.wait_for("the session begins with your first message");
    screen.wait_for("› ");
    screen.types("One?\r");
    screen.wait_for("First.");
    screen.wait_for("› ");
    screen.types("/continue\r");
    screen.wait_for("with 2 messages of the old one");
    screen.wait_for("come back to the old session with: cairn chat s-");
    screen.wait_for("› ");
    screen.types("Two?\r");
    screen.wait_for("Second.");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("come back with: cairn chat s-");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    let asked = asked.lock().expect("requests");
    assert_eq!(super::texts(&asked[1]), ["One?", "First.", "Two?"]);
    let sessions = site.run(&["sessions", "--json"]).out;
    assert_eq!(sessions.lines().count(), 2, "{sessions}");
    assert!(sessions.contains("One? (continued)"), "{sessions}");
}

/// Another command connects while the model writes, and the log names its frames.
#[test]
fn log_lines_follow_the_reply_that_they_come_in() {
    let (release, answer) = parts();
    let look = reply("a", "", &[("look", json!({"what": "it"}))]);
    let (server, _) = server(vec![look, answer]);
    let site = Site::new(CAIRN);
    let mut command = site.command(&["chat"]);
    let command = command.env("CAIRN_LOG__LEVEL", "warn,h2=debug");
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("› ");
    screen.types("Tell me.\r");
    screen.wait_for("→ look");
    release.text("It is a long ");
    screen.wait_for("It is a long");
    assert_eq!(site.run(&["sessions"]).code, Some(0));
    release.text("story.");
    release.end("end", &[]);
    assert_eq!(screen.wait_for(" story."), "", "the reply is torn");
    screen.wait_for("h2::");
}

#[test]
fn a_conversation_that_is_left_at_once_leaves_no_session() {
    let (server, _) = server(Vec::new());
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("/context\r");
    screen.wait_for("the session begins with your first message");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("nothing was said, so there is no session");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    assert_eq!(site.run(&["sessions", "--json"]).out, "");
}

#[test]
fn the_terminal_is_as_before_after_every_end() {
    for is_signal in [false, true] {
        let (server, _) = server(Vec::new());
        let site = Site::new(CAIRN);
        let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
        screen.wait_for("› ");
        assert!(!screen.is_plain());
        match is_signal {
            false => screen.types("\u{4}"),
            true => kill_process(Pid::from_child(&screen.child), Signal::TERM).expect("it is told"),
        }
        screen.wait_for("nothing was said, so there is no session");
        screen.child.wait().expect("its end");
        assert!(screen.is_plain());
    }
}

#[test]
fn a_settings_file_that_is_found_is_asked_about_once() {
    let site = Site::new(CAIRN).of_others();
    let mut screen = Screen::of(&mut site.command(&["sessions"]));
    let shown = screen.wait_for("Confirm? [y/N] ");
    assert!(
        shown.contains("run as the tool record: sh record.sh"),
        "{shown}"
    );
    screen.types("n\r");
    screen.wait_for("cairn.toml is not confirmed, so these settings have no effect");
    // A person who refused is not asked again about the same content.
    let mut screen = Screen::of(&mut site.command(&["sessions"]));
    screen.wait_for("cairn.toml is not confirmed, so these settings have no effect");
    site.append("cairn.toml", "# changed\n");
    let mut screen = Screen::of(&mut site.command(&["sessions"]));
    screen.wait_for("Confirm? [y/N] ");
    screen.types("y\r");
    screen.wait_for("there is no");
    let done = site.run(&["config", "check", "--json"]);
    assert!(done.out.contains(r#""confirmed":true"#), "{done:?}");
}

#[test]
fn an_answer_approves_further_calls_of_the_session() {
    let call = |id: &str| reply(id, "", &[("record", json!({"what": "one"}))]);
    let answers = vec![call("one"), call("two"), reply("r", "Recorded.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
    );
    let mut command = site.command(&["chat"]);
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("› ");
    screen.types("Record twice\r");
    let shown = screen.wait_for("approve? [y / 1 / n");
    assert!(shown.contains("every call of record"), "{shown}");
    // What an approval of further calls was before there were scopes.
    screen.types("a\r");
    screen.wait_for("that is no answer to the question");
    screen.wait_for("› ");
    screen.types("1\r");
    screen.wait_for("Recorded.");
    assert_eq!(site.read("ledger").expect("a ledger").lines().count(), 2);
}

#[test]
fn a_question_that_is_answered_elsewhere_gives_way_to_a_message() {
    let call = reply("one", "", &[("record", json!({"what": "one"}))]);
    let answers = vec![call, reply("r", "Recorded.", &[]), reply("n", "Next.", &[])];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
    );
    let mut command = site.command(&["chat"]);
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" ");
    screen.wait_for("› ");
    screen.types("Record\r");
    screen.wait_for("approve? [y / 1 / n");
    let approved = site.run(&["approve", session.trim(), &waiting(&site), "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    screen.wait_for("the question has its answer");
    let shown = screen.wait_for("› ");
    assert!(shown.ends_with('\n'), "it begins a line: {shown:?}");
    screen.wait_for("Recorded.");
    screen.wait_for("tokens in");
    screen.types("y\r");
    screen.wait_for("Next.");
    let asked = asked.lock().expect("requests");
    assert_eq!(super::texts(&asked[2]).last(), Some(&"y"));
}

/// A turn that is continued comes with its earlier waits, which a person has answered.
#[test]
fn a_question_that_is_open_is_shown_once_after_coming_back() {
    let call = |id: &str| reply(id, "", &[("record", json!({"what": id}))]);
    let answers = vec![call("one"), call("two"), reply("r", "Recorded.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
    );
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" ");
    screen.wait_for("› ");
    screen.types("Record twice\r");
    screen.wait_for("approve? [y / 1 / n");
    screen.types("y\r");
    for text in ["✓ record", "→ record", "approve? [y / 1 / n"] {
        screen.wait_for(text);
    }
    screen.types("\u{4}");
    screen.wait_for("the turn is kept");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    let again = ["chat", session.trim()];
    let mut screen = Screen::of(site.command(&again).envs(model(&server)));
    // The question may be shown before what was done, or after it.
    let told = ["✓ record", "→ record", "approve? [y / 1 / n"];
    let mut shown = screen.wait_for_all(&told);
    screen.types("y\r");
    shown.push_str(&screen.wait_for("Recorded."));
    assert_eq!(shown.matches("? approval-").count(), 1, "{shown}");
}
