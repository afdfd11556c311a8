//! Approvals of further calls, as a person gives them: the words are read off the screen and chosen by their number.
//! What they say is covered, and nothing else, with real tools and in each mode.

mod cases;

use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, Site};
use cases::{Called, Case, SERVERS, cases};
use serde_json::{Value, json};
use std::sync::Mutex;

/// Every call asks, whatever the mode and the default of its tool are.
const ASK: &str = "\n[[tools.rules]]\ntool = \"*\"\nanswer = \"ask\"\n";

/// A site whose calls all ask, and a conversation with a model that makes these calls, one in each reply.
struct Talk {
    site: Site,
    screen: Screen,
    session: String,
    _server: ModelServer,
}

impl Talk {
    fn begin(calls: &[Called], mode: &str) -> Self {
        let site = Site::new(CAIRN);
        site.write("server.sh", cases::SERVER);
        site.append("cairn.toml", &format!("{SERVERS}{ASK}"));
        let numbered = calls.iter().enumerate();
        let replies: Vec<Answer> = numbered
            .map(|(number, (tool, arguments))| {
                reply(&format!("c{number}"), "", &[(*tool, arguments.clone())])
            })
            .collect();
        let replies = Mutex::new(replies.into_iter());
        let server = ModelServer::start(move |_| {
            let next = replies.lock().expect("replies").next();
            next.unwrap_or_else(|| reply("end", "Done.", &[]))
        });
        let mut command = site.command(&["chat", "--mode", mode]);
        let command = command
            .env("OPENAI_BASE_URL", server.url())
            .env("OPENAI_API_KEY", "sk-none-needed");
        let mut screen = Screen::of(command);
        screen.wait_for("session ");
        let session = screen.wait_for(" ").trim().to_owned();
        screen.wait_for(&format!("mode {mode}"));
        screen.wait_for("› ");
        screen.types("Begin.\r");
        Self {
            site,
            screen,
            session,
            _server: server,
        }
    }

    /// Waits for the question about the call of that number, and returns what is shown of it.
    fn question(&mut self, number: usize) -> String {
        let title = format!("? approval-1.1.1.{number}.0");
        self.screen.wait_for(&title);
        self.screen.wait_for("approve? [")
    }

    fn answers(&mut self, keys: &str) {
        self.screen.types(&format!("{keys}\r"));
    }

    /// Numbers of the calls that were asked about.
    fn asked(&self) -> Vec<usize> {
        self.calls("approval_requested", |_| true)
    }

    /// Numbers of the calls that were made.
    fn made(&self) -> Vec<usize> {
        self.calls("call_finished", |event| event["is_error"] != true)
    }

    fn calls(&self, kind: &str, is_meant: fn(&Value) -> bool) -> Vec<usize> {
        let journal = self.site.journal(&self.session);
        let events = journal.of_kind(kind).into_iter();
        let events = events.filter(|event| is_meant(event));
        let numbers = events.map(|event| event["call"]["tool_turn"].as_u64().unwrap_or(0));
        let numbers = numbers.map(|number| usize::try_from(number).expect("a small number"));
        numbers.collect()
    }
}

/// The numbered choices of a question, as they are shown: what each covers.
fn choices(shown: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = shown.split_whitespace().collect();
    let text = words.join(" ");
    let pieces: Vec<&str> = text.split(" this call, and in this session ").collect();
    let pairs = pieces.windows(2).map(|pair| {
        let number = pair[0].rsplit(' ').next().unwrap_or_default();
        let (covers, _) = pair[1].rsplit_once(' ').unwrap_or((pair[1], ""));
        let last = pair[1].split_once(" n do not make it");
        let covers = last.map_or(covers, |(covers, _)| covers);
        (number.to_owned(), covers.to_owned())
    });
    pairs.collect()
}

/// Grants what the words of the case say, and makes its calls. Returns how many of them did not do as the words say.
fn differences(case: &Case, mode: &str) -> Vec<String> {
    let mut calls = case.before.clone();
    calls.push(case.first.clone());
    let first = case.before.len();
    // One inside, one outside, and so on.
    for (inside, outside) in case.inside.iter().zip(&case.outside) {
        calls.extend([inside.clone(), outside.clone()]);
    }
    let mut talk = Talk::begin(&calls, mode);
    for number in 0..first {
        talk.question(number);
        talk.answers("y");
    }
    let shown = talk.question(first);
    let choices = choices(&shown);
    let chosen = choices.iter().find(|(_, covers)| covers == case.words);
    let (number, _) = chosen.unwrap_or_else(|| panic!("no {:?} in {choices:?}", case.words));
    talk.answers(number);
    for pair in 0..case.outside.len() {
        talk.question(first + 2 + 2 * pair);
        talk.answers("n");
    }
    talk.screen.wait_for("Done.");
    talk.screen.wait_for("tokens in");
    let (asked, made) = (talk.asked(), talk.made());
    let further = (first + 1..calls.len()).filter(|number| {
        let is_inside = (number - first) % 2 == 1;
        asked.contains(number) == is_inside || made.contains(number) != is_inside
    });
    let named = further.map(|number| format!("{mode}, {}: {:?}", case.words, calls[number]));
    let listed = talk.site.run(&["tools", "approvals", &talk.session]);
    assert!(listed.out.contains(case.words), "{listed:?}");
    named.collect()
}

fn without_differences(mode: &str) {
    let cases = cases();
    let found: Vec<String> = cases
        .iter()
        .flat_map(|case| differences(case, mode))
        .collect();
    assert_eq!(found, Vec::<String>::new());
    println!("{} scopes in the mode {mode}: 0 differences", cases.len());
}

#[test]
fn in_the_mode_ask_each_scope_covers_what_its_words_say() {
    without_differences("ask");
}

/// A rule that asks holds in it.
#[test]
fn in_the_mode_accept_edits_each_scope_covers_what_its_words_say() {
    without_differences("accept-edits");
}

#[test]
fn in_the_mode_plan_no_scope_lets_a_call_pass() {
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x\n"}));
    let calls = [write("src/a.txt"), write("src/b.txt"), write("src/c.txt")];
    let mut talk = Talk::begin(&calls, "ask");
    let shown = talk.question(0);
    let choices = choices(&shown);
    let folder = "every call of write_file below src/";
    assert!(
        choices.iter().any(|(_, covers)| covers == folder),
        "{choices:?}"
    );
    let set = talk.site.run(&["pending", &talk.session, "--json"]);
    let pending: Value = serde_json::from_str(set.out.trim()).expect("one question");
    // The same words and ids as on the screen.
    let scopes = pending["scopes"].as_array().expect("scopes").iter();
    let covers: Vec<&str> = scopes.filter_map(|it| it["covers"].as_str()).collect();
    let shown: Vec<&str> = choices.iter().map(|(_, covers)| covers.as_str()).collect();
    assert_eq!(covers, shown);
    talk.answers("/mode plan");
    talk.screen.wait_for("mode plan: ");
    talk.screen.wait_for("› ");
    // The first call was judged before, and so is asked about.
    let (number, _) = choices.iter().find(|(_, it)| it == folder).expect("it");
    talk.answers(number);
    talk.screen.wait_for("Done.");
    talk.screen.wait_for("tokens in");
    assert_eq!(talk.site.read("src/a.txt").as_deref(), Some("x\n"));
    assert_eq!(talk.asked(), [0]);
    assert_eq!(talk.site.read("src/b.txt"), None);
    assert_eq!(talk.site.read("src/c.txt"), None);
}

#[test]
fn choices_are_read_off_the_screen() {
    let shown = "y         this call\r\n  1         this call, and in this session every call of a below\r\n            \
                 src/\r\n  2         this call, and in this session every call of a\r\n  n         do not make it; the";
    let expected = [
        ("1", "every call of a below src/"),
        ("2", "every call of a"),
    ];
    let expected = expected.map(|(number, covers)| (number.to_owned(), covers.to_owned()));
    assert_eq!(choices(shown), expected);
}
