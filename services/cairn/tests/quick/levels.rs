//! Sessions of a newer release, as the commands of this one show them.

use crate::support::CAIRN;
use cairn_testkit::Site;
use serde_json::{Value, json};

const PLAN: &str = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
const ASKING: &str = r#"{"steps": [{"tool": "record", "arguments": {"what": "one"}}]}"#;
const RULE: &str = r#"
[[tools.rules]]
tool = "record"
answer = "ask"
"#;
/// Makes a command one of the next release.
const NEXT: [(&str, &str); 1] = [("CAIRN_LEVEL", "2")];

/// The sessions of a list, the newest first.
fn listed(site: &Site, variables: &[(&str, &str)]) -> Vec<Value> {
    let listed = site.run_with(&["sessions", "--json"], variables);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines = listed.out.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("lines of JSON")
}

#[test]
fn a_session_of_a_newer_release_is_named_with_the_level_that_it_needs() {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", RULE);
    site.write("plan.json", PLAN);
    site.write("asking.json", ASKING);
    let run = |session, plan| {
        let run = ["run", "--session", session, "--plan", plan];
        site.run_with(&run, &NEXT)
    };
    let done = run("done", "plan.json");
    assert_eq!(done.code, Some(0), "{done:?}");
    let sessions = listed(&site, &[]);
    let newer = json!({"needs": 2, "level": 1});
    assert_eq!(sessions[0]["status"], "idle");
    assert_eq!(sessions[0]["newer_version"], newer);
    let shown = site.run(&["show", "done"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.err.contains("needs level 2"), "{}", shown.err);
    // It is finished, and nothing waits.
    let doctor = site.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    let named = "sessions  1 session  finished ones of a newer version";
    assert!(doctor.out.contains(named), "{}", doctor.out);

    let asks = run("asks", "asking.json");
    assert_eq!(asks.code, Some(3), "{asks:?}");
    let sessions = listed(&site, &[]);
    assert_eq!(sessions[0]["status"], "waiting");
    assert_eq!(sessions[0]["newer_version"], newer);
    let doctor = site.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let named = "session \"asks\" needs level 2, and what serves it has level 1";
    assert!(doctor.out.contains(named), "{}", doctor.out);
    assert!(!doctor.out.contains("\"done\""), "{}", doctor.out);
    let wrong = site.run_with(&["run", "look"], &[("CAIRN_LEVEL", "0")]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

/// The same commands of the newer release read them.
#[test]
fn a_reader_has_the_level_of_its_process() {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    assert_eq!(site.run_with(&run, &NEXT).code, Some(0));
    let sessions = listed(&site, &NEXT);
    assert_eq!(sessions[0]["newer_version"], Value::Null);
    for command in [&["show", "s"][..], &["doctor"]] {
        let done = site.run_with(command, &NEXT);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!done.out.contains("newer version"), "{}", done.out);
    }
}
