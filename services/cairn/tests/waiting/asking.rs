//! What waits for a person's word, and budgets, through the command line: in a file, on Redis and on
//! a cluster. Each command is a process of its own, or comes to a server of its own, so every question
//! outlives the process that asked it.

use crate::support::{place, shown};
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, Output, TestStore};
use place::Place;
use serde_json::{Value, json};

const GOAL: &str = "Which files under docs mention Redis?";
const TWO: &str = r#"{"steps": [
    {"tool": "record", "arguments": {"what": "one"}},
    {"tool": "record", "arguments": {"what": "two"}}]}"#;

/// A place with a plan of two calls.
fn over(store: TestStore) -> Place {
    let place = Place::over(store);
    place.site.write("plan.json", TWO);
    place
}

/// Its tool `record` needs approval.
fn careful(place: &Place) {
    let settings = place.site.read("cairn.toml").expect("settings");
    let settings = settings.replacen(
        "[[tools.commands]]",
        "[tools]\nask = [\"record\"]\n\n[[tools.commands]]",
        1,
    );
    place.site.write("cairn.toml", &settings);
}

fn add_model(place: &Place, model: &ModelServer) {
    let provider = format!(
        "[models.served]\nprovider = \"openai\"\nmodel = \"served-1\"\nbase_url = \"{}\"\n\
         api_key = \"sk-none\"\n",
        model.url()
    );
    place.site.append("cairn.toml", &provider);
}

/// The open questions.
fn pending(place: &Place) -> Vec<Value> {
    let output = place.with_code(0, &["pending", "--json"]);
    let lines = output.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Compares what a run says at its end, when it waits, with a snapshot that holds for each store.
fn check_waits(place: &Place, name: &str, waits: &Output) {
    let end = waits.out.find("\nwaits ");
    let end = end.unwrap_or_else(|| panic!("it does not wait: {waits:?}"));
    let end = &waits.out[end + 1..];
    shown::settings(&place.site).bind(|| insta::assert_snapshot!(name, end));
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

fn a_tool_that_needs_approval_is_called_once_a_person_allows_it(place: &Place) {
    careful(place);
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    let waits = place.with_code(3, &run);
    check_waits(place, "waits_for_approval", &waits);
    assert_eq!(recorded(place, "one"), 0, "nobody allowed it");
    let open = pending(place);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["reason"], "approval");
    assert_eq!(open[0]["arguments_json"], r#"{"what":"one"}"#);

    // Another process continues, and asks no more than before.
    place.with_code(3, &["resume", "s"]);
    assert_eq!(recorded(place, "one"), 0);
    let approved = place.with_code(0, &["approve", "s", "approval-1.1.1.0.0", "--yes"]);
    assert!(
        approved.out.contains("approved approval-1.1.1.0.0"),
        "{approved:?}"
    );
    // The answer that is sent twice is refused, and does no harm.
    place.with_code(1, &["decide", "s", "approval-1.1.1.0.0", "approve"]);
    place.with_code(3, &["resume", "s"]);
    assert_eq!((recorded(place, "one"), recorded(place, "two")), (1, 0));

    let deny = [
        "decide",
        "s",
        "approval-1.2.1.0.0",
        "deny",
        "--reason",
        "once is enough",
    ];
    let denied = place.with_code(0, &deny);
    assert!(
        !denied.out.contains("resume"),
        "the run has failed: {denied:?}"
    );
    assert!(denied.out.contains("look   "), "{denied:?}");
    assert_eq!((recorded(place, "one"), recorded(place, "two")), (1, 0));
    let journal = place.journal("s");
    assert!(why_it_failed(&journal).contains("once is enough"));
    assert_eq!(journal.of_kind("approval_requested").len(), 2);
    assert_eq!(journal.of_kind("call_intended").len(), 1);
    journal.check();
}

fn nothing_is_approved_that_does_not_wait(place: &Place) {
    place.with_code(0, &["run", "--session", "s", "--plan", "plan.json"]);
    let refused = place.run(&["approve", "s"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("nothing waits for approval"),
        "{refused:?}"
    );
}

fn a_plan_is_looked_at_before_it_is_carried_out(place: &Place) {
    let waits = place.with_code(3, &["run", "--session", "s", "--review", GOAL]);
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
    place.with_code(0, &["approve", "s", "plan-1.1", "--yes"]);
    place.with_code(0, &["resume", "s"]);
    let journal = place.journal("s");
    assert_eq!(journal.of_kind("plan_applied").len(), 1);
    assert_eq!(journal.of_kind("step_completed").len(), steps);
}

fn a_budget_holds_and_continues_when_a_person_says_so(place: &Place) {
    let run = [
        "run",
        "--session",
        "s",
        "--plan",
        "plan.json",
        "--max-calls",
        "1",
    ];
    let waits = place.with_code(3, &run);
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
    place.with_code(0, &["decide", "s", "budget-1", "retry"]);
    place.with_code(0, &["resume", "s"]);
    assert_eq!((recorded(place, "one"), recorded(place, "two")), (1, 1));
}

fn a_budget_of_time_stops_a_question_that_is_not_answered(place: &Place) {
    let model = ModelServer::start(|_| Answer::Hold);
    add_model(place, &model);
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
    let waits = place.with_code(3, &run);
    assert!(waits.out.contains("its time is used up"), "{waits:?}");
    place.with_code(
        0,
        &["decide", "s", "budget-1", "fail", "--reason", "enough"],
    );
    assert!(why_it_failed(&place.journal("s")).contains("active time"));
}

/// A model that asks which one, and ends its step with what it was told.
fn curious(body: &Value) -> Answer {
    let messages = body["messages"].as_array().expect("messages");
    let reported = messages.iter().rfind(|message| message["role"] == "tool");
    let is_step = messages.iter().any(|message| {
        let text = message["content"].as_str().unwrap_or_default();
        text.contains("## Current step")
    });
    if !is_step {
        let plan = json!({"steps": [{"title": "Choose", "description": "Choose one."}]});
        return reply("p", &plan.to_string(), &[]);
    }
    match reported {
        None => {
            let asked = json!({"question": "Which one?", "choices": ["left", "right"]});
            reply("a", "", &[("ask_person", asked)])
        }
        Some(reported) => {
            let summary = json!({"complete": true, "summary": reported["content"]});
            reply("b", "", &[("step", summary)])
        }
    }
}

fn the_model_is_reported_what_a_person_answers(place: &Place) {
    let model = ModelServer::start(curious);
    add_model(place, &model);
    let run = ["run", "--session", "s", "--model", "served", "Choose."];
    let waits = place.with_code(3, &run);
    check_waits(place, "waits_for_an_answer", &waits);
    let open = pending(place);
    assert_eq!(open[0]["question"], "Which one?");
    let id = open[0]["id"].as_str().expect("an id");
    assert_eq!(id, "question-1.1.1.0.0");
    place.with_code(0, &["decide", "s", id, "answer", "the left one"]);
    // The process that took the answer may have gone on to the end.
    place.with_code(0, &["resume", "s"]);
    let journal = place.journal("s");
    let ended = journal.of_kind("run_completed");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["answer"], "the left one");
}

#[test]
fn in_a_file_a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
    a_tool_that_needs_approval_is_called_once_a_person_allows_it(&over(TestStore::file()));
}

#[test]
fn in_a_file_nothing_is_approved_that_does_not_wait() {
    nothing_is_approved_that_does_not_wait(&over(TestStore::file()));
}

#[test]
fn in_a_file_a_plan_is_looked_at_before_it_is_carried_out() {
    a_plan_is_looked_at_before_it_is_carried_out(&over(TestStore::file()));
}

#[test]
fn in_a_file_a_budget_holds_and_continues_when_a_person_says_so() {
    a_budget_holds_and_continues_when_a_person_says_so(&over(TestStore::file()));
}

#[test]
fn in_a_file_a_budget_of_time_stops_a_question_that_is_not_answered() {
    a_budget_of_time_stops_a_question_that_is_not_answered(&over(TestStore::file()));
}

#[test]
fn in_a_file_the_model_is_reported_what_a_person_answers() {
    the_model_is_reported_what_a_person_answers(&over(TestStore::file()));
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[test]
    fn over_redis_a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
        a_tool_that_needs_approval_is_called_once_a_person_allows_it(&over(TestStore::redis()));
    }

    #[test]
    fn over_redis_nothing_is_approved_that_does_not_wait() {
        nothing_is_approved_that_does_not_wait(&over(TestStore::redis()));
    }

    #[test]
    fn over_redis_a_plan_is_looked_at_before_it_is_carried_out() {
        a_plan_is_looked_at_before_it_is_carried_out(&over(TestStore::redis()));
    }

    #[test]
    fn over_redis_a_budget_holds_and_continues_when_a_person_says_so() {
        a_budget_holds_and_continues_when_a_person_says_so(&over(TestStore::redis()));
    }

    #[test]
    fn over_redis_a_budget_of_time_stops_a_question_that_is_not_answered() {
        a_budget_of_time_stops_a_question_that_is_not_answered(&over(TestStore::redis()));
    }

    #[test]
    fn over_redis_the_model_is_reported_what_a_person_answers() {
        the_model_is_reported_what_a_person_answers(&over(TestStore::redis()));
    }

    #[test]
    fn over_a_cluster_a_tool_that_needs_approval_is_called_once_a_person_allows_it() {
        a_tool_that_needs_approval_is_called_once_a_person_allows_it(&over(TestStore::cluster()));
    }

    #[test]
    fn over_a_cluster_the_model_is_reported_what_a_person_answers() {
        the_model_is_reported_what_a_person_answers(&over(TestStore::cluster()));
    }
}
