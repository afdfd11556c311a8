//! Rules of the settings, and approvals of further calls, through real runs.

use crate::support::CAIRN;
use cairn_testkit::{Output, Site};
use serde_json::{Value, json};

/// The question about the first call.
const ID: &str = "approval-1.1.1.0.0";

const RULES: &str = r#"
[[tools.rules]]
tool = "rec*"
answer = "ask"

[[tools.rules]]
tool = "read_file"
answer = "ask"

[[tools.rules]]
tool = "write_file"
when = { path = "cairn-out/secret/**" }
answer = "deny"
"#;

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", RULES);
    site
}

/// Runs a plan of these calls in the session `s`.
fn run(site: &Site, calls: &[(&str, Value)]) -> Output {
    let steps = calls
        .iter()
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}));
    let plan = json!({"steps": steps.collect::<Vec<_>>()});
    site.write("plan.json", &plan.to_string());
    site.run(&["run", "--session", "s", "--plan", "plan.json"])
}

fn with_code(site: &Site, code: i32, arguments: &[&str]) -> Output {
    let done = site.run(arguments);
    assert_eq!(done.code, Some(code), "{arguments:?}: {done:?}");
    done
}

#[test]
fn an_approval_for_the_session_covers_further_calls_until_it_is_revoked() {
    let site = site();
    let record = |what: &str| ("record", json!({"what": what}));
    let asks = run(&site, &[record("one"), record("one"), record("two")]);
    assert_eq!(asks.code, Some(3), "{asks:?}");
    let approved = with_code(&site, 0, &["approve", "s", ID, "--yes", "--always"]);
    assert!(
        approved.out.contains("cairn tools approvals s"),
        "{approved:?}"
    );
    // The second call has the same arguments, and the third one has not.
    with_code(&site, 3, &["resume", "s"]);
    assert_eq!(site.read("ledger").expect("a ledger").lines().count(), 2);
    with_code(&site, 0, &["cancel", "s"]);

    let listed = with_code(&site, 0, &["tools", "approvals", "s"]);
    assert!(
        listed.out.contains("record") && listed.out.contains("what = one"),
        "{listed:?}"
    );
    assert_eq!(run(&site, &[record("one")]).code, Some(0));
    with_code(&site, 0, &["tools", "revoke", "s", "1"]);
    let none = with_code(&site, 0, &["tools", "approvals", "s", "--json"]);
    assert_eq!(none.out, "");
    assert_eq!(run(&site, &[record("one")]).code, Some(3));
    let again = site.run(&["tools", "revoke", "s", "1"]);
    assert_eq!(again.code, Some(1), "{again:?}");
}

#[test]
fn an_approval_covers_the_values_that_it_names() {
    let site = site();
    let read = |path: &str| ("read_file", json!({"path": path}));
    let asks = run(
        &site,
        &[read("docs/one.md"), read("docs/two.md"), read("record.sh")],
    );
    assert_eq!(asks.code, Some(3), "{asks:?}");
    let wrong = site.run(&[
        "approve",
        "s",
        ID,
        "--yes",
        "--always",
        "--when",
        "path=other/**",
    ]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    with_code(
        &site,
        0,
        &[
            "approve",
            "s",
            ID,
            "--yes",
            "--always",
            "--when",
            "path=docs/**",
        ],
    );
    // The second file is covered, and the third is not.
    with_code(&site, 3, &["resume", "s"]);
    let pending = with_code(&site, 0, &["pending", "s", "--json"]);
    assert_eq!(pending.out.lines().count(), 1, "{pending:?}");
    assert!(pending.out.contains("record.sh"), "{pending:?}");
}

#[test]
fn a_rule_denies_the_calls_that_it_matches() {
    let site = site();
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    let done = run(&site, &[write("cairn-out/open/a.txt")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let denied = run(&site, &[write("cairn-out/open/../secret/a.txt")]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(!site.path().join("cairn-out/secret").exists());
    let rules = with_code(&site, 0, &["tools", "rules"]);
    assert!(rules.out.contains("rec*: ask\n"), "{rules:?}");
}

#[test]
fn a_rule_of_a_whole_path_holds_in_the_workspace() {
    let site = site();
    let folder = site.path().canonicalize().expect("the workspace");
    let rule = format!(
        "\n[[tools.rules]]\ntool = \"list_files\"\nwhen = {{ path = \"{}/private/**\" }}\nanswer = \"deny\"\n",
        folder.display()
    );
    site.append("cairn.toml", &rule);
    let denied = site.run(&["tools", "call", "list_files", r#"{"path": "private"}"#]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.err.contains("a rule denies"), "{denied:?}");
    with_code(&site, 0, &["tools", "call", "list_files"]);
}

#[test]
fn a_tool_is_tried_by_the_same_rules() {
    let site = site();
    let call = |name: &str, arguments: &str, more: &[&str]| {
        site.run(&[&["tools", "call", name, arguments], more].concat())
    };
    let asked = call("record", r#"{"what": "x"}"#, &[]);
    assert_eq!(asked.code, Some(3), "{asked:?}");
    assert!(asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(site.read("ledger"), None);
    let made = call("record", r#"{"what": "x"}"#, &["--yes"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(site.read("ledger").is_some());
    let secret = r#"{"path": "cairn-out/secret/a", "content": "x"}"#;
    let denied = call("write_file", secret, &["--yes"]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.err.contains("a rule denies"), "{denied:?}");
    let wrong = call("list_files", r#"{"path": 1}"#, &["--json"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.out.contains(r#""is_error":true"#), "{wrong:?}");
}

#[test]
fn faults_of_rules_name_their_settings() {
    let site = site();
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"[\"\nanswer = \"ask\"\n",
    );
    let done = site.run(&["check-config"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.err.contains("tools.rules[3].tool is no pattern"),
        "{done:?}"
    );
}
