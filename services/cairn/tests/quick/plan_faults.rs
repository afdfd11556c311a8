//! Plans that cannot be used, from each of the places that plans come from: a file, a request of the API, a model,
//! and a program that reads what a model answers.

use crate::support::{CAIRN, chain, client, model_step, node, parts, start, watch_to_end};
use cairn_model::{ModelRegistry, Recorded};
use cairn_proto::event as wire;
use cairn_proto::event::FailureKind;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::StartRunRequest;
use cairn_rpc::{ErrorKind, RpcError};
use cairn_testkit::{Output, Site};
use serde_json::json;
use std::sync::Arc;

const GOAL: &str = "Look around twice.";
const NO_STEPS: &str = "a plan needs at least one step";
const NO_DESCRIPTION: &str = "step 1 lacks 'description'";
/// Texts that are no plan, and what is said of them.
const FAULTS: [(&str, &str); 4] = [
    (
        r#"{"steps": [{"description": "a"},]}"#,
        "bad JSON at line 1, column 33: trailing comma",
    ),
    (r#"{"order": "chain"}"#, "missing 'steps' array"),
    (
        r#"{"steps": [{"description": "a"}, {"title": "b"}]}"#,
        NO_DESCRIPTION,
    ),
    (r#"{"steps": []}"#, NO_STEPS),
];

/// A recording of a model that answers the goal with this text, and again after each fault.
fn answering(text: &str) -> String {
    let planning = json!({"match": {"contains": GOAL}, "reply": {"text": text}, "repeat": true});
    planning.to_string()
}

/// A site whose model is played, with these lines in `[planner]`.
fn site(recording: &str, planner: &str) -> Site {
    let site = Site::new(CAIRN);
    let played = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"";
    site.append("cairn.toml", &format!("\n{played}\n[planner]\n{planner}\n"));
    site.write("played.jsonl", recording);
    site
}

fn run(site: &Site) -> Output {
    site.run(&["run", "--model", "played", GOAL])
}

fn check_failed(done: &Output, says: &str) {
    assert_eq!(done.code, Some(1), "{done:?}");
    let text = format!("{}{}", done.out, done.err);
    // Lines are as wide as a terminal.
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(says), "{says}: {done:?}");
}

#[test]
fn a_plan_of_a_file_is_refused_with_its_fault() {
    let site = Site::new(CAIRN);
    for (text, says) in FAULTS {
        site.write("bad.json", text);
        let done = site.run(&["run", "--plan", "bad.json"]);
        assert_eq!((done.code, &*done.out), (Some(2), ""), "{done:?}");
        assert!(done.err.contains(says), "{says}: {done:?}");
    }
    assert!(!site.has_store(), "a store was made for no plan");
}

#[test]
fn a_plan_by_hand_is_refused_with_its_fault() {
    let site = Site::new(CAIRN);
    let plan = json!({"steps": [{"tool": "list_files", "arguments": {"path": "docs"}}]});
    site.write("plan.json", &plan.to_string());
    let done = site.run(&["run", "--plan", "plan.json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for (text, says) in FAULTS {
        site.write("bad.json", text);
        let done = site.run(&["plan", "edit", "--file", "bad.json", "--yes"]);
        assert_eq!((done.code, &*done.out), (Some(2), ""), "{done:?}");
        assert!(done.err.contains(says), "{says}: {done:?}");
    }
}

#[tokio::test]
async fn a_plan_of_a_request_is_refused_with_its_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts(folder.path(), ModelRegistry::new())).await;
    let without = wire::PlanStep {
        title: "b".to_owned(),
        ..wire::PlanStep::default()
    };
    for (steps, field, says) in [
        (Vec::new(), "run.plan", NO_STEPS),
        (
            vec![model_step("a"), without],
            "run.plan.steps.description",
            NO_DESCRIPTION,
        ),
    ] {
        let request = StartRunRequest {
            request_id: field.to_owned(),
            run: Some(chain(steps)),
            ..StartRunRequest::default()
        };
        let status = client(&node).start_run(request).await.expect_err(says);
        let error = RpcError::from_status(&status);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.reason_name(), "BAD_PLAN");
        let violation = &error.violations()[0];
        assert_eq!(violation.field, field);
        assert!(violation.problem.contains(says), "{violation:?}");
    }
}

#[test]
fn a_plan_of_a_model_fails_the_run_with_its_fault() {
    for (text, says) in FAULTS {
        let site = site(&answering(text), "");
        check_failed(&run(&site), says);
        let failed = site
            .journal(&site.sessions()[0])
            .of_kind("run_failed")
            .len();
        assert_eq!(failed, 1, "{text}");
    }
}

#[tokio::test]
async fn a_watcher_of_the_run_gets_the_same_fault() {
    for (text, says) in FAULTS {
        let recorded = Recorded::parse("played", &answering(text)).expect("a recording");
        let mut models = ModelRegistry::new();
        models.insert("played", Arc::new(recorded));
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(parts(folder.path(), models)).await;
        let run = wire::StartRun {
            goal: GOAL.to_owned(),
            ..wire::StartRun::default()
        };
        let mut client = client(&node);
        let session = start(&mut client, "r-1", run).await;
        let (_, event) = watch_to_end(&mut client, &session, 0)
            .await
            .pop()
            .expect("an event");
        let Some(Kind::RunFailed(failed)) = event.kind else {
            panic!("{event:?}");
        };
        let failure = failed.failure.expect("a failure");
        assert_eq!(failure.kind(), FailureKind::PlanParse);
        assert!(failure.message.contains(says), "{failure:?}");
    }
}

/// The first line is a word, and each further one a folder to list.
const PARSER: &str = r#"IFS= read -r first
if [ "$first" != PLAN ]; then
    echo "the first line must be PLAN" >&2
    exit 1
fi
printf '{"steps":['
separator=
while IFS= read -r folder || [ -n "$folder" ]; do
    printf '%s{"tool":"list_files","arguments":{"path":"%s"}}' "$separator" "$folder"
    separator=,
done
printf ']}'
"#;
const BY_PROGRAM: &str = r#"parser = ["sh", "parse.sh"]"#;

#[test]
fn a_program_reads_plans_and_its_words_go_back_to_the_model() {
    let first = json!({"match": {"contains": GOAL}, "reply": {"text": "docs\n."}});
    let mended = json!({
        "match": {"contains": "the first line must be PLAN"},
        "reply": {"text": "PLAN\ndocs\n."},
    });
    let site = site(&format!("{first}\n{mended}\n"), BY_PROGRAM);
    site.write("parse.sh", PARSER);
    let done = run(&site);
    assert_eq!(done.code, Some(0), "{done:?}");
    let session = &site.sessions()[0];
    let steps = site.journal(session).of_kind("step_completed").len();
    assert_eq!(steps, 2, "{done:?}");
}

#[test]
fn a_program_that_refuses_twice_or_does_not_work_fails_the_run() {
    for (planner, script, says) in [
        (BY_PROGRAM, PARSER, "the first line must be PLAN"),
        (BY_PROGRAM, "echo '{}'", "missing 'steps' array"),
        (
            BY_PROGRAM,
            "echo no plan",
            "the plan parser 'sh' printed no plan: bad JSON at line 1",
        ),
        (
            "parser = [\"sh\", \"parse.sh\"]\nparser_timeout = \"200ms\"",
            "sleep 1000",
            "the plan parser 'sh' did not end within 200ms",
        ),
        (
            "parser = [\"no-such-program\"]",
            "",
            "the plan parser 'no-such-program' cannot be started",
        ),
    ] {
        let site = site(&answering("docs"), planner);
        site.write("parse.sh", script);
        check_failed(&run(&site), says);
        site.wait_for_programs();
    }
}

#[test]
fn a_program_of_others_reads_nothing() {
    let site = Site::new(CAIRN).of_others();
    let settings = "\n[planner]\nparser = [\"touch\", \"started\"]\n";
    site.append("cairn.toml", settings);
    let done = site.run(&["run", "Which files mention \"Redis\"?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("have no effect: "), "{done:?}");
    assert!(done.err.contains("planner"), "{done:?}");
    assert!(!site.path().join("started").exists());
}
