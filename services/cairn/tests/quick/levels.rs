//! Sessions of a newer release, as the commands of this one show them.

use crate::support::CAIRN;
use cairn_testkit::Site;
use serde_json::{Value, json};

const PLAN: &str = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;

#[test]
fn a_session_of_a_newer_release_is_named_with_the_level_that_it_needs() {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let run = ["run", "--session", "newer", "--plan", "plan.json"];
    let done = site.run_with(&run, &[("CAIRN_LEVEL", "2")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let listed = site.run(&["sessions", "--json"]);
    let listed: Value = serde_json::from_str(listed.out.trim()).expect("one session");
    assert_eq!(listed["status"], "waiting");
    assert_eq!(listed["newer_version"], json!({"needs": 2, "level": 1}));
    let shown = site.run(&["show", "newer"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.err.contains("needs level 2"), "{}", shown.err);
    let doctor = site.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let named = "session \"newer\" needs level 2, and what serves it has level 1";
    assert!(doctor.out.contains(named), "{}", doctor.out);
    let wrong = site.run_with(&["run", "look"], &[("CAIRN_LEVEL", "0")]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
