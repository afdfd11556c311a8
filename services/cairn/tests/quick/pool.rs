//! `cairn pool`: the resources of one process are shown, others registered and removed, and tools granted and revoked.

use crate::support::CAIRN;
#[cfg(debug_assertions)]
use crate::support::pool::TIMES;
use cairn_testkit::Site;
use serde_json::Value;

fn site() -> Site {
    Site::new(CAIRN)
}

/// The one object that the command prints.
fn json(site: &Site, arguments: &[&str]) -> Value {
    let done = site.run(&[arguments, &["--json"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(done.out.trim()).expect("an object")
}

fn resource<'a>(pool: &'a Value, id: &str) -> &'a Value {
    let resources = pool["resources"].as_array().expect("resources");
    let found = resources.iter().find(|it| it["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {pool}"))
}

#[test]
fn the_pool_of_one_process_has_its_executor() {
    let site = site();
    let pool = json(&site, &["pool"]);
    let executor = resource(&pool, "executor");
    assert_eq!(executor["kind"], "executor");
    assert_eq!(executor["state"], "available");
    assert_eq!(executor["slots"], executor["free_slots"]);
    let capabilities = pool["capabilities"].as_array().expect("capabilities");
    let files = capabilities.iter().find(|it| it["name"] == "file_ops");
    assert_eq!(
        files.expect("file_ops")["available_resources"][0],
        "executor"
    );

    let done = site.run(&["pool", "show"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let first = done.out.lines().next().unwrap_or_default();
    assert!(first.starts_with("1 resource: 1 available"), "{done:?}");
    assert!(done.out.contains("\nCAPABILITY"), "{done:?}");
}

#[test]
fn resources_are_registered_and_removed() {
    let site = site();
    let put = [
        "pool",
        "put",
        "gpu-1",
        "--kind",
        "gpu",
        "--capability",
        "gpu>=5",
        "--slots",
        "2",
        "--label",
        "rack=7",
    ];
    let done = site.run(&put);
    let expected = "resource gpu-1 is registered, version 1\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    assert_eq!(json(&site, &put)["version"], 2);
    let pool = json(&site, &["pool"]);
    let gpu = resource(&pool, "gpu-1");
    assert_eq!(gpu["kind"], "gpu");
    assert_eq!(gpu["version"], 2);
    assert_eq!(gpu["labels"]["rack"], "7");
    assert_eq!(gpu["capabilities"][0]["level"], 5);

    let remove = ["pool", "remove", "gpu-1"];
    let done = site.run(&remove);
    let expected = "resource gpu-1 is removed\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    let done = site.run(&remove);
    assert_eq!(done.code, Some(1), "{done:?}");
    let gone = "registered resource \"gpu-1\" does not exist";
    assert!(done.err.contains(gone), "{}", done.err);
    assert!(
        done.err.contains("see the pool with: cairn pool"),
        "{}",
        done.err
    );
}

#[test]
fn what_would_not_count_is_refused_or_named() {
    let site = site();
    let put = |id: &str, kind: &str, labels: [&str; 2]| {
        let [first, second] = labels;
        let labels = ["--label", first, "--label", second];
        site.run(&[&["pool", "put", id, "--kind", kind][..], &labels].concat())
    };
    let twice = put("gpu-1", "gpu", ["a=1", "a=2"]);
    assert_eq!(twice.code, Some(2), "{twice:?}");
    let given = "--label a is given twice";
    assert!(twice.err.contains(given), "{}", twice.err);
    let absent = put("other", "executor", ["a=1", "b=2"]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
    let named = "no executor of the pool has the id other";
    assert!(absent.err.contains(named), "{}", absent.err);
    let live = put("executor", "executor", ["a=1", "b=2"]);
    assert_eq!(live.code, Some(0), "{live:?}");
    let ignored = "--kind and --slots do not count";
    assert!(live.out.contains(ignored), "{live:?}");
    let shown = site.run(&["pool"]);
    assert!(shown.out.contains("a=1, b=2"), "{shown:?}");
}

/// The owner finds what was registered while no process worked on the session.
#[cfg(debug_assertions)]
#[test]
fn sessions_that_lacked_a_capability_continue_with_what_was_registered() {
    let site = site();
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}, "capabilities": ["gpu"]}]}"#;
    site.write("plan.json", plan);
    for session in ["first", "second"] {
        let run = ["run", "--session", session, "--plan", "plan.json"];
        let waits = site.run_with(&run, &[TIMES]);
        assert_eq!(waits.code, Some(3), "{waits:?}");
        let put = "cairn pool put ID --kind KIND --capability gpu";
        assert!(waits.out.contains(put), "{waits:?}");
        let resume = format!("cairn resume {session}");
        assert!(waits.out.contains(&resume), "{waits:?}");
        assert!(waits.out.contains("cairn serve"), "{waits:?}");
    }
    let put = [
        "pool",
        "put",
        "gpu-1",
        "--kind",
        "gpu",
        "--capability",
        "gpu",
    ];
    let done = site.run(&put);
    assert_eq!(done.code, Some(0), "{done:?}");
    for resume in [&["resume", "first"][..], &["resume"]] {
        let done = site.run_with(resume, &[TIMES]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

#[test]
fn tools_are_granted_and_revoked() {
    let site = site();
    let done = site.run(&["pool", "grant", "web_search", "--agent", "reviewer"]);
    let expected = "agent reviewer can use web_search\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    let done = site.run(&["pool", "revoke", "edit_file", "--agent", "reviewer"]);
    let expected = "agent reviewer can no longer use edit_file\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    let granted = &json(&site, &["pool"])["agent_grants"][0];
    assert_eq!(granted["agent"], "reviewer");
    assert_eq!(granted["granted"][0], "web_search");
    assert_eq!(granted["revoked"][0], "edit_file");

    let revoked = ["pool", "revoke", "edit_file", "--executor", "executor"];
    let revoked = json(&site, &revoked);
    assert_eq!(revoked["executor"], "executor");
    assert_eq!(revoked["granted"], false);
    let pool = json(&site, &["pool"]);
    assert_eq!(resource(&pool, "executor")["revoked_tools"][0], "edit_file");

    let done = site.run(&["pool", "revoke", "step", "--agent", "reviewer"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let needed =
        "tool is step, which no model can do without (allowed: a tool that can be revoked)";
    assert!(done.err.contains(needed), "{}", done.err);
}

#[test]
fn the_context_is_what_a_model_is_told() {
    let site = site();
    let done = site.run(&["pool", "context"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let start = "## Current pool state\n- Total: 1\n- Available: 1\n";
    assert!(done.out.starts_with(start), "{done:?}");
    assert!(!done.out.contains("## Current task"), "{done:?}");

    let plan = r#"{"steps": [{"title": "Look", "tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let done = site.run(&["run", "--session", "s", "--plan", "plan.json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let context = json(&site, &["pool", "context", "s", "--step", "1"]);
    assert_eq!(context["context"]["task"]["id"], "step-1");
    assert_eq!(context["context"]["task"]["description"], "Look");
    assert_eq!(context["context"]["allotted_resources"][0], "executor");
    let text = context["text"].as_str().expect("a text");
    assert!(text.contains("## Current task\n- ID: step-1\n"), "{text}");
}

#[test]
fn a_watch_needs_a_process_that_works_on_the_store() {
    let site = site();
    let done = site.run(&["pool", "grant", "web_search", "--agent", "reviewer"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let done = site.run(&["pool", "watch"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.err.contains("no process works on the store"),
        "{}",
        done.err
    );
    assert!(done.err.contains("cairn serve"), "{}", done.err);
}
