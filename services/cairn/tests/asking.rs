//! What waits for a person's word, and budgets, through the command line. Each command is a process
//! of its own, or comes to a server of its own, so every question outlives the process that asked it.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, Output, Site};
use serde_json::{Value, json};

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const GOAL: &str = "Which files under docs mention Redis?";
const TWO: &str = r#"{"steps": [
    {"tool": "record", "arguments": {"what": "one"}},
    {"tool": "record", "arguments": {"what": "two"}}]}"#;

/// Where commands are given, and the store, if it is elsewhere.
struct Place {
    site: Site,
    store: Option<String>,
}

impl Place {
    fn in_a_file() -> Self {
        Self::over(None)
    }

    fn over(store: Option<String>) -> Self {
        let site = Site::new(CAIRN);
        site.write("plan.json", TWO);
        Self { site, store }
    }

    /// Its tool `record` needs approval.
    fn careful(self) -> Self {
        let settings = self.site.read("cairn.toml").expect("settings");
        let settings = settings.replacen(
            "[[tools.commands]]",
            "[tools]\nask = [\"record\"]\n\n[[tools.commands]]",
            1,
        );
        self.site.write("cairn.toml", &settings);
        self
    }

    fn with_model(self, model: &ModelServer) -> Self {
        let provider = format!(
            "[models.served]\nprovider = \"openai\"\nmodel = \"served-1\"\nbase_url = \"{}\"\n\
             api_key = \"sk-none\"\n",
            model.url()
        );
        self.site.append("cairn.toml", &provider);
        self
    }

    /// A store elsewhere is served for this command, and by nobody afterwards.
    fn run(&self, arguments: &[&str]) -> Output {
        let Some(store) = &self.store else {
            return self.site.run(arguments);
        };
        let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut serving = self.site.start(&serve, &[("CAIRN_STORE", store)]);
        let told: Value = serde_json::from_str(&serving.first_line).expect("JSON");
        let address = told["listen"].as_str().expect("an address");
        let output = self.site.run(&[arguments, &["--server", address]].concat());
        serving.interrupt();
        assert_eq!(serving.wait_for_code(), Some(0), "{arguments:?}");
        output
    }

    fn journal(&self, session: &str) -> Journal {
        Journal::read(&with_code(self, 0, &["export", session]).out)
    }
}

fn with_code(place: &Place, code: i32, arguments: &[&str]) -> Output {
    let output = place.run(arguments);
    assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
    output
}

/// The open questions.
fn pending(place: &Place) -> Vec<Value> {
    let output = with_code(place, 0, &["pending", "--json"]);
    let lines = output.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn why_it_failed(journal: &Journal) -> String {
    let failed = journal.of_kind("run_failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    failed[0]["failure"]["message"].to_string()
}

/// How often `record` was called for this.
fn recorded(place: &Place, what: &str) -> usize {
    place
        .site
        .ledger()
        .times(&format!(r#"{{"what":"{what}"}}"#))
}

fn a_tool_that_needs_approval_is_called_once_a_person_allows_it(place: Place) {
    let place = place.careful();
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    let waits = with_code(&place, 3, &run);
    for says in [
        "a call needs a person's approval",
        "approval-1.1.1.0.0 approve",
        r#"record {"what":"one"}"#,
    ] {
        assert!(waits.out.contains(says), "{says}: {waits:?}");
    }
    assert_eq!(recorded(&place, "one"), 0, "nobody allowed it");
    let open = pending(&place);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["reason"], "approval");
    assert_eq!(open[0]["arguments_json"], r#"{"what":"one"}"#);

    // Another process goes on, and asks no more than before.
    with_code(&place, 3, &["resume", "s"]);
    assert_eq!(recorded(&place, "one"), 0);
    let approved = with_code(&place, 0, &["approve", "s"]);
    assert!(
        approved.out.contains("approved approval-1.1.1.0.0"),
        "{approved:?}"
    );
    // The answer that is sent twice is refused, and does no harm.
    with_code(&place, 1, &["decide", "s", "approval-1.1.1.0.0", "approve"]);
    with_code(&place, 3, &["resume", "s"]);
    assert_eq!((recorded(&place, "one"), recorded(&place, "two")), (1, 0));

    let deny = [
        "decide",
        "s",
        "approval-1.2.1.0.0",
        "deny",
        "--reason",
        "once is enough",
    ];
    with_code(&place, 0, &deny);
    assert_eq!((recorded(&place, "one"), recorded(&place, "two")), (1, 0));
    let journal = place.journal("s");
    assert!(why_it_failed(&journal).contains("once is enough"));
    assert_eq!(journal.of_kind("approval_requested").len(), 2);
    assert_eq!(journal.of_kind("call_intended").len(), 1);
    journal.check();
}

fn nothing_is_approved_that_does_not_wait(place: &Place) {
    with_code(place, 0, &["run", "--session", "s", "--plan", "plan.json"]);
    let refused = place.run(&["approve", "s"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("nothing waits for approval"),
        "{refused:?}"
    );
}

fn a_plan_is_looked_at_before_it_is_carried_out(place: &Place) {
    let waits = with_code(place, 3, &["run", "--session", "s", "--review", GOAL]);
    assert!(
        waits.out.contains("a person is to look at the plan"),
        "{waits:?}"
    );
    let open = pending(place);
    assert_eq!(
        (&open[0]["id"], &open[0]["reason"]),
        (&json!("plan-1.1"), &json!("plan_review"))
    );
    let steps = open[0]["plan"]["steps"].as_array().expect("steps").len();
    assert!(steps > 1, "{open:?}");
    assert!(place.journal("s").of_kind("step_started").is_empty());
    with_code(place, 0, &["approve", "s"]);
    with_code(place, 0, &["resume", "s"]);
    let journal = place.journal("s");
    assert_eq!(journal.of_kind("plan_applied").len(), 1);
    assert_eq!(journal.of_kind("step_completed").len(), steps);
}

fn a_budget_holds_and_goes_on_when_a_person_says_so(place: &Place) {
    let run = [
        "run",
        "--session",
        "s",
        "--plan",
        "plan.json",
        "--max-calls",
        "1",
    ];
    let waits = with_code(place, 3, &run);
    assert!(
        waits.out.contains("its tool calls are used up"),
        "{waits:?}"
    );
    assert_eq!((recorded(place, "one"), recorded(place, "two")), (1, 0));
    let open = pending(place);
    assert_eq!(
        (&open[0]["id"], &open[0]["budget"]),
        (&json!("budget-1"), &json!("calls"))
    );
    with_code(place, 0, &["decide", "s", "budget-1", "retry"]);
    with_code(place, 0, &["resume", "s"]);
    assert_eq!((recorded(place, "one"), recorded(place, "two")), (1, 1));
}

fn a_budget_of_time_stops_a_question_that_is_not_answered(place: Place) {
    let model = ModelServer::start(|_| Answer::Hold);
    let place = place.with_model(&model);
    let run = [
        "run",
        "--session",
        "s",
        "--model",
        "served",
        "--max-time",
        "300ms",
        "Wait.",
    ];
    let waits = with_code(&place, 3, &run);
    assert!(waits.out.contains("its time is used up"), "{waits:?}");
    with_code(
        &place,
        0,
        &["decide", "s", "budget-1", "fail", "--reason", "enough"],
    );
    assert!(why_it_failed(&place.journal("s")).contains("active time"));
}

/// A model that asks which one, and ends its step with what it was told.
fn curious(body: &Value) -> Answer {
    let messages = body["messages"].as_array().expect("messages");
    let told = messages.iter().rfind(|message| message["role"] == "tool");
    let is_step = messages.iter().any(|message| {
        let text = message["content"].as_str().unwrap_or_default();
        text.contains("## Current step")
    });
    if !is_step {
        let plan = json!({"steps": [{"title": "Choose", "description": "Choose one."}]});
        return reply("p", &plan.to_string(), &[]);
    }
    match told {
        None => {
            let asked = json!({"question": "Which one?", "choices": ["left", "right"]});
            reply("a", "", &[("ask_person", asked)])
        }
        Some(told) => {
            let summary = json!({"complete": true, "summary": told["content"]});
            reply("b", "", &[("step", summary)])
        }
    }
}

fn the_model_is_told_what_a_person_answers(place: Place) {
    let model = ModelServer::start(curious);
    let place = place.with_model(&model);
    let run = ["run", "--session", "s", "--model", "served", "Choose."];
    let waits = with_code(&place, 3, &run);
    for says in ["the model asks a person", "Which one?", "· left"] {
        assert!(waits.out.contains(says), "{says}: {waits:?}");
    }
    let open = pending(&place);
    assert_eq!(open[0]["question"], "Which one?");
    let id = open[0]["id"].as_str().expect("an id");
    assert_eq!(id, "question-1.1.1.0.0");
    with_code(&place, 0, &["decide", "s", id, "answer", "the left one"]);
    // The process that took the answer may have gone on to the end.
    with_code(&place, 0, &["resume", "s"]);
    let journal = place.journal("s");
    let ended = journal.of_kind("run_completed");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["answer"], "the left one");
}

#[test]
fn in_a_file_a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
    a_tool_that_needs_approval_is_called_once_a_person_allows_it(Place::in_a_file());
}

#[test]
fn in_a_file_nothing_is_approved_that_does_not_wait() {
    nothing_is_approved_that_does_not_wait(&Place::in_a_file());
}

#[test]
fn in_a_file_a_plan_is_looked_at_before_it_is_carried_out() {
    a_plan_is_looked_at_before_it_is_carried_out(&Place::in_a_file());
}

#[test]
fn in_a_file_a_budget_holds_and_goes_on_when_a_person_says_so() {
    a_budget_holds_and_goes_on_when_a_person_says_so(&Place::in_a_file());
}

#[test]
fn in_a_file_a_budget_of_time_stops_a_question_that_is_not_answered() {
    a_budget_of_time_stops_a_question_that_is_not_answered(Place::in_a_file());
}

#[test]
fn in_a_file_the_model_is_told_what_a_person_answers() {
    the_model_is_told_what_a_person_answers(Place::in_a_file());
}

/// Each needs a server of Redis.
mod redis {
    use super::*;
    use cairn_testkit::RedisServer;

    #[test]
    fn a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
        let redis = RedisServer::start();
        super::a_tool_that_needs_approval_is_called_once_a_person_allows_it(Place::over(Some(
            redis.url(),
        )));
    }

    #[test]
    fn nothing_is_approved_that_does_not_wait() {
        let redis = RedisServer::start();
        super::nothing_is_approved_that_does_not_wait(&Place::over(Some(redis.url())));
    }

    #[test]
    fn a_plan_is_looked_at_before_it_is_carried_out() {
        let redis = RedisServer::start();
        super::a_plan_is_looked_at_before_it_is_carried_out(&Place::over(Some(redis.url())));
    }

    #[test]
    fn a_budget_holds_and_goes_on_when_a_person_says_so() {
        let redis = RedisServer::start();
        super::a_budget_holds_and_goes_on_when_a_person_says_so(&Place::over(Some(redis.url())));
    }

    #[test]
    fn a_budget_of_time_stops_a_question_that_is_not_answered() {
        let redis = RedisServer::start();
        super::a_budget_of_time_stops_a_question_that_is_not_answered(Place::over(Some(
            redis.url(),
        )));
    }

    #[test]
    fn the_model_is_told_what_a_person_answers() {
        let redis = RedisServer::start();
        super::the_model_is_told_what_a_person_answers(Place::over(Some(redis.url())));
    }
}
