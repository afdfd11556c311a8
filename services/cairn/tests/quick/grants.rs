//! What grants rights: without a terminal it wants `--yes`, and the id or the digest of what is granted.

use crate::support::CAIRN;
use crate::support::grants::digest_of;
use cairn_testkit::{Output, Site};
use serde_json::json;

const SERVERS: &str = r#"{"mcpServers": {"it": {"command": "touch", "args": ["started"]}}}"#;
const ID: &str = "approval-1.1.1.0.0";

/// A site whose calls wait for approval.
fn waiting() -> Site {
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
    );
    let step = json!({"tool": "record", "arguments": {"what": "one"}});
    site.write("plan.json", &json!({"steps": [step]}).to_string());
    let run = site.run(&["run", "--session", "s", "--plan", "plan.json"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    site
}

/// It says what it wants, and changes nothing.
fn refused(site: &Site, arguments: &[&str]) -> Output {
    let refused = site.run(arguments);
    assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
    assert!(refused.err.contains("--yes"), "{arguments:?}: {refused:?}");
    refused
}

#[test]
fn an_approval_without_a_terminal_names_its_question() {
    let site = waiting();
    for arguments in [
        &["approve"][..],
        &["approve", "s"],
        &["approve", "s", "--json"],
        &["approve", "s", "--yes"],
        &["approve", "s", "--all"],
        &["approve", "s", "--all", "--yes"],
        &["approve", "s", ID],
        &["approve", "s", ID, "--always"],
    ] {
        let refused = refused(&site, arguments);
        let command = format!("cairn approve s {ID} --yes");
        assert!(refused.err.contains(&command), "{refused:?}");
    }
    let pending = site.run(&["pending", "s", "--json"]);
    assert_eq!(pending.out.lines().count(), 1, "{pending:?}");
    let approved = site.run(&["approve", "s", ID, "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let none = site.run(&["pending", "s", "--json"]);
    assert_eq!(none.out, "");
}

#[test]
fn a_server_is_allowed_without_a_terminal_by_its_digest() {
    let site = Site::new(CAIRN);
    site.write(".mcp.json", SERVERS);
    let asked = refused(&site, &["tools", "allow", "it"]);
    let digest = digest_of(&asked);
    for arguments in [
        &["tools", "allow", "it", "--yes"][..],
        &["tools", "allow", "it", "--digest", &digest],
        &["tools", "allow", "it", "--json"],
    ] {
        refused(&site, arguments);
    }
    assert_eq!(site.read("started"), None);
    let both = ["tools", "allow", "it", "--digest", &digest, "--yes"];
    let allowed = site.run(&both);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
}

#[test]
fn a_settings_file_is_confirmed_without_a_terminal_by_its_digest() {
    let site = Site::new(CAIRN).of_others();
    site.write("cairn.toml", "[run]\nmax_turns = 5000\n");
    let asked = refused(&site, &["config", "trust"]);
    let digest = digest_of(&asked);
    for arguments in [
        &["config", "trust", "--yes"][..],
        &["config", "trust", "--digest", &digest],
        &["config", "trust", "--yes", "--json"],
    ] {
        refused(&site, arguments);
    }
    let checked = site.run(&["config", "check", "--json"]);
    assert!(checked.out.contains(r#""confirmed":false"#), "{checked:?}");
    let both = ["config", "trust", "--digest", &digest, "--yes"];
    let confirmed = site.run(&both);
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
}

#[test]
fn an_approval_of_further_calls_says_what_it_grants() {
    let site = waiting();
    let always = ["approve", "s", ID, "--yes", "--always", "--when", "what=**"];
    let approved = site.run(&always);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(
        approved.out.contains("calls with what = **"),
        "{approved:?}"
    );
    assert!(!approved.out.contains("what = one"), "{approved:?}");
}
