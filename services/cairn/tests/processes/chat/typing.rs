//! What a person types or pastes arrives whole: at any moment, in any burst, however its bytes are cut.

use super::model;
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::model_server::{Answer, Release, parts, reply};
use cairn_testkit::{ModelServer, Site, eventually};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

const PASTE: &str = "\u{1b}[200~";
const PASTE_END: &str = "\u{1b}[201~";
/// What is typed last: what was typed before has arrived when this has.
const LAST: &str = "That is all.";

/// A conversation at a terminal.
struct Conversation {
    site: Site,
    screen: Screen,
    _server: ModelServer,
}

impl Conversation {
    /// Begins one with a model that answers in this order, and then always the same.
    fn begin(answers: Vec<Answer>) -> Self {
        let answers = Mutex::new(answers.into_iter());
        let server = ModelServer::start(move |_| {
            let next = answers.lock().expect("answers").next();
            next.unwrap_or_else(|| reply("r", "Yes.", &[]))
        });
        let site = Site::new(CAIRN);
        site.append(
            "cairn.toml",
            "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
        );
        let screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
        Self {
            site,
            screen,
            _server: server,
        }
    }

    /// One whose first reply has begun and has not ended.
    fn streaming() -> (Self, Release) {
        let (release, answer) = parts();
        let look = reply("a", "", &[("look", json!({"what": "it"}))]);
        let mut it = Self::begin(vec![look, answer]);
        it.screen.wait_for("› ");
        it.screen.types("Begin.\r");
        // The text after a call is seen from its beginning: the stream of the turn is open by then.
        it.screen.wait_for("→ look");
        release.text("It begins ");
        it.screen.wait_for("It begins");
        (it, release)
    }

    /// The messages that the session has got, in order, each with its lines.
    fn messages(&self) -> Vec<String> {
        let Some(session) = self.site.sessions().into_iter().next() else {
            return Vec::new();
        };
        let journal = self.site.journal(&session);
        let refused = journal.of_kind("command_refused");
        let refused: BTreeSet<_> = refused.iter().map(|it| it["answers"].as_u64()).collect();
        let commands = journal.of_kind("command_received").into_iter();
        let commands = commands.filter(|event| !refused.contains(&event["seq"].as_u64()));
        commands.filter_map(message).collect()
    }

    /// Waits until the session has got the message.
    fn wait_for(&mut self, text: &str) {
        eventually(text, || {
            self.screen.catch_up();
            let messages = self.messages();
            messages.iter().any(|it| it.ends_with(text)).then_some(())
        });
    }

    /// Waits until everything has arrived, and returns the messages but for the last line.
    fn end(mut self) -> Vec<String> {
        self.screen.types(&format!("{LAST}\r"));
        self.wait_for(LAST);
        let mut messages = self.messages();
        let last = messages.pop().unwrap_or_default();
        let rest = last.strip_suffix(LAST).expect("the last line");
        messages.extend(rest.strip_suffix('\n').map(str::to_owned));
        messages
    }

    /// Waits until the person has left, and returns the messages.
    fn leaving(mut self) -> Vec<String> {
        // A command that does not fit beside it stands on a line of its own.
        self.screen.wait_for("come back with:");
        self.screen.wait_for("cairn chat s-");
        assert_eq!(self.screen.child.wait().expect("its end").code(), Some(0));
        self.messages()
    }
}

/// The message that a command brings to the session.
fn message(event: &Value) -> Option<String> {
    let command = &event["command"];
    let carried = ["submit_turn", "send_message"].map(|kind| &command[kind]["message"]["parts"]);
    let parts = carried.into_iter().find_map(Value::as_array)?;
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    Some(texts.collect())
}

fn lines(messages: &[String]) -> Vec<&str> {
    messages.iter().flat_map(|it| it.split('\n')).collect()
}

/// A part of a burst.
#[derive(Debug, Clone)]
enum Part {
    /// A line, and the keys that end it.
    Line(String, &'static str),
    /// Pasted lines, and what is between them.
    Paste(Vec<String>, &'static str),
}

impl Part {
    fn keys(&self) -> String {
        match self {
            Self::Line(text, end) => format!("{text}{end}"),
            Self::Paste(lines, between) => {
                format!("{PASTE}{}{PASTE_END}\r", lines.join(between))
            }
        }
    }

    fn lines(&self) -> Vec<&str> {
        match self {
            Self::Line(text, _) => vec![text.as_str()],
            Self::Paste(lines, _) => lines.iter().map(String::as_str).collect(),
        }
    }
}

fn parts_of_bursts() -> impl Strategy<Value = Vec<Part>> {
    let text = prop_oneof![
        8 => "[a-z][a-zé€😀 ]{0,20}[a-z]",
        1 => "[a-z]{200,400}",
    ];
    let end = prop_oneof![Just("\r"), Just("\n"), Just("\r\n")];
    let between = prop_oneof![Just("\r"), Just("\n"), Just("\r\n")];
    let line = (text.clone(), end).prop_map(|(text, end)| Part::Line(text, end));
    let paste = (prop::collection::vec(text, 1..4), between)
        .prop_map(|(lines, between)| Part::Paste(lines, between));
    prop::collection::vec(prop_oneof![2 => line, 1 => paste], 2..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Bursts come before the first prompt, while turns run and between them.
    #[test]
    fn every_line_of_every_burst_arrives_in_its_order(
        parts in parts_of_bursts(),
        sizes in prop::collection::vec(1_usize..200, 1..6),
        is_early in any::<bool>(),
    ) {
        let keys: String = parts.iter().map(Part::keys).collect();
        let mut conversation = Conversation::begin(Vec::new());
        // A terminal that no program has taken keeps 4,095 bytes.
        let is_early = is_early && keys.len() <= 4000;
        let keys = match is_early {
            // It makes two line breaks of CR LF.
            true => keys.replace("\r\n", "\n"),
            false => keys,
        };
        if !is_early {
            conversation.screen.wait_for("› ");
        }
        let (mut rest, mut sizes) = (keys.as_bytes(), sizes.iter().cycle());
        while let (false, Some(size)) = (rest.is_empty(), sizes.next()) {
            let (burst, others) = rest.split_at(rest.len().min(*size));
            conversation.screen.types_bytes(burst);
            rest = others;
        }
        let expected: Vec<&str> = parts.iter().flat_map(Part::lines).collect();
        let messages = conversation.end();
        prop_assert_eq!(lines(&messages), expected);
    }
}

#[test]
fn lines_before_the_first_prompt_are_kept() {
    let mut conversation = Conversation::begin(Vec::new());
    conversation.screen.types("one\rtwo\rthree\r");
    conversation
        .screen
        .wait_for("come back with: cairn chat s-");
    assert_eq!(lines(&conversation.end()), ["one", "two", "three"]);
}

#[test]
fn lines_at_the_end_of_a_turn_are_kept() {
    let (mut conversation, release) = Conversation::streaming();
    conversation.screen.types("one\rtwo\rth");
    release.end("end", &[]);
    conversation.screen.types("ree\rfour\r");
    let expected = ["Begin.", "one", "two", "three", "four"];
    assert_eq!(lines(&conversation.end()), expected);
}

#[test]
fn each_line_of_a_plain_burst_is_kept() {
    let mut conversation = Conversation::begin(Vec::new());
    conversation.screen.wait_for("› ");
    let burst = "line one\rline two\r\tindented\tonce\rline four\n";
    conversation.screen.types(burst);
    let expected = ["line one", "line two", "\tindented\tonce", "line four"];
    assert_eq!(lines(&conversation.end()), expected);
}

#[test]
fn a_paste_is_one_message_with_its_line_breaks() {
    let script = "cargo build \\\r\n  --release\r\n\tdone\r\n\r\nend";
    let pasted = format!("{PASTE}{script}{PASTE_END}");
    let (mut conversation, release) = Conversation::streaming();
    // Nobody types yet: the first key of the paste lets the person type.
    conversation.screen.types(&format!("{pasted}\r"));
    conversation.wait_for("end");
    release.end("end", &[]);
    conversation
        .screen
        .types(&format!("before {pasted} after\\\rand more\r"));
    let messages = conversation.end();
    let whole = "cargo build \\\n  --release\n\tdone\n\nend";
    let expected = [
        "Begin.".to_owned(),
        whole.to_owned(),
        format!("before {whole} after\nand more"),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn bytes_that_are_no_text_end_no_conversation() {
    let mut conversation = Conversation::begin(Vec::new());
    conversation.screen.wait_for("› ");
    conversation
        .screen
        .types_bytes(b"caf\xe9 and \xe2\x82\rmore\r");
    let expected = ["caf\u{fffd} and \u{fffd}", "more"];
    assert_eq!(lines(&conversation.end()), expected);
}

#[test]
fn lines_around_ctrl_c_are_kept() {
    let (mut conversation, _release) = Conversation::streaming();
    conversation.screen.types("two\r\u{3}three\r\u{3}four\r");
    let messages = conversation.end();
    assert_eq!(lines(&messages), ["Begin.", "two", "three", "four"]);
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let call = reply("one", "", &[("record", json!({"what": "one"}))]);
    let mut conversation = Conversation::begin(vec![call]);
    conversation.screen.wait_for("› ");
    conversation.screen.types("Record it.\ry\r");
    conversation.screen.wait_for("approve? [y / 1 / n");
    assert_eq!(conversation.site.read("ledger"), None, "nobody approved it");
    conversation.screen.types("y\rAnd then?\r");
    conversation.screen.wait_for("Yes.");
    let messages = conversation.end();
    assert_eq!(lines(&messages), ["Record it.", "y", "And then?"]);
}

#[test]
fn a_line_before_ctrl_d_is_a_turn_of_the_session() {
    let (_release, answer) = parts();
    let mut conversation = Conversation::begin(vec![answer]);
    conversation.screen.wait_for("› ");
    conversation.screen.types("One.\r\u{4}");
    assert_eq!(conversation.leaving(), ["One."]);
}
