//! What waits for a person's word, and budgets, through the command line. Each command is a process
//! of its own, so every question outlives the process that asked it.

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

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", TWO);
    site
}

/// Its tool `record` needs approval.
fn careful() -> Site {
    let site = site();
    let settings = site.read("cairn.toml").expect("settings");
    let settings = settings.replacen(
        "[[tools.commands]]",
        "[tools]\nask = [\"record\"]\n\n[[tools.commands]]",
        1,
    );
    site.write("cairn.toml", &settings);
    site
}

fn with_code(site: &Site, code: i32, arguments: &[&str]) -> Output {
    let output = site.run(arguments);
    assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
    output
}

/// The open questions.
fn pending(site: &Site) -> Vec<Value> {
    let output = with_code(site, 0, &["pending", "--json"]);
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
fn recorded(site: &Site, what: &str) -> usize {
    site.ledger().times(&format!(r#"{{"what":"{what}"}}"#))
}

#[test]
fn a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
    let site = careful();
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    let waits = with_code(&site, 3, &run);
    for says in [
        "a call needs a person's approval",
        "approval-1.1.1.0.0 approve",
        r#"record {"what":"one"}"#,
    ] {
        assert!(waits.out.contains(says), "{says}: {waits:?}");
    }
    assert_eq!(recorded(&site, "one"), 0, "nobody allowed it");
    let open = pending(&site);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["reason"], "approval");
    assert_eq!(open[0]["arguments_json"], r#"{"what":"one"}"#);

    // Another process goes on, and asks no more than before.
    with_code(&site, 3, &["resume", "s"]);
    assert_eq!(recorded(&site, "one"), 0);
    let approved = with_code(&site, 0, &["approve", "s"]);
    assert!(
        approved.out.contains("approved approval-1.1.1.0.0"),
        "{approved:?}"
    );
    // The answer that is sent twice is refused, and does no harm.
    with_code(&site, 1, &["decide", "s", "approval-1.1.1.0.0", "approve"]);
    with_code(&site, 3, &["resume", "s"]);
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (1, 0));

    let deny = [
        "decide",
        "s",
        "approval-1.2.1.0.0",
        "deny",
        "--reason",
        "once is enough",
    ];
    with_code(&site, 0, &deny);
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (1, 0));
    let journal = site.journal("s");
    assert!(why_it_failed(&journal).contains("once is enough"));
    assert_eq!(journal.of_kind("approval_requested").len(), 2);
    assert_eq!(journal.of_kind("call_intended").len(), 1);
    journal.check();
}

#[test]
fn nothing_is_approved_that_does_not_wait() {
    let site = site();
    with_code(&site, 0, &["run", "--session", "s", "--plan", "plan.json"]);
    let refused = site.run(&["approve", "s"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("nothing waits for approval"),
        "{refused:?}"
    );
}

#[test]
fn a_plan_is_looked_at_before_it_is_carried_out() {
    let site = site();
    let waits = with_code(&site, 3, &["run", "--session", "s", "--review", GOAL]);
    assert!(
        waits.out.contains("a person is to look at the plan"),
        "{waits:?}"
    );
    let open = pending(&site);
    assert_eq!(
        (&open[0]["id"], &open[0]["reason"]),
        (&json!("plan-1.1"), &json!("plan_review"))
    );
    let steps = open[0]["plan"]["steps"].as_array().expect("steps").len();
    assert!(steps > 1, "{open:?}");
    assert!(site.journal("s").of_kind("step_started").is_empty());
    with_code(&site, 0, &["approve", "s"]);
    with_code(&site, 0, &["resume", "s"]);
    let journal = site.journal("s");
    assert_eq!(journal.of_kind("plan_applied").len(), 1);
    assert_eq!(journal.of_kind("step_completed").len(), steps);
}

#[test]
fn a_budget_holds_and_goes_on_when_a_person_says_so() {
    let site = site();
    let run = [
        "run",
        "--session",
        "s",
        "--plan",
        "plan.json",
        "--max-calls",
        "1",
    ];
    let waits = with_code(&site, 3, &run);
    assert!(
        waits.out.contains("its tool calls are used up"),
        "{waits:?}"
    );
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (1, 0));
    let open = pending(&site);
    assert_eq!(
        (&open[0]["id"], &open[0]["budget"]),
        (&json!("budget-1"), &json!("calls"))
    );
    with_code(&site, 0, &["decide", "s", "budget-1", "retry"]);
    with_code(&site, 0, &["resume", "s"]);
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (1, 1));
}

#[test]
fn a_budget_of_time_stops_a_question_that_is_not_answered() {
    let site = site();
    let model = ModelServer::start(|_| Answer::Hold);
    with_model(&site, &model);
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
    let waits = with_code(&site, 3, &run);
    assert!(waits.out.contains("its time is used up"), "{waits:?}");
    with_code(
        &site,
        0,
        &["decide", "s", "budget-1", "fail", "--reason", "enough"],
    );
    assert!(why_it_failed(&site.journal("s")).contains("active time"));
}

fn with_model(site: &Site, model: &ModelServer) {
    let provider = format!(
        "[models.served]\nprovider = \"openai\"\nmodel = \"served-1\"\nbase_url = \"{}\"\n\
         api_key = \"sk-none\"\n",
        model.url()
    );
    site.append("cairn.toml", &provider);
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

#[test]
fn the_model_is_told_what_a_person_answers() {
    let site = site();
    let model = ModelServer::start(curious);
    with_model(&site, &model);
    let run = ["run", "--session", "s", "--model", "served", "Choose."];
    let waits = with_code(&site, 3, &run);
    for says in ["the model asks a person", "Which one?", "· left"] {
        assert!(waits.out.contains(says), "{says}: {waits:?}");
    }
    let open = pending(&site);
    assert_eq!(open[0]["question"], "Which one?");
    let id = open[0]["id"].as_str().expect("an id");
    assert_eq!(id, "question-1.1.1.0.0");
    with_code(&site, 0, &["decide", "s", id, "answer", "the left one"]);
    // The process that took the answer may have gone on to the end.
    with_code(&site, 0, &["resume", "s"]);
    let journal = site.journal("s");
    let ended = journal.of_kind("run_completed");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["answer"], "the left one");
}
