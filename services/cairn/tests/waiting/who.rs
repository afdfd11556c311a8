//! Who approved, denied, paused, edited, cancelled and forked, as `log`, `show` and `export` tell it.

use crate::support::CAIRN;
use cairn_testkit::{Output, Site};
use serde_json::Value;

const CALL: &str = r#"{"tool": "list_files", "arguments": {"path": "."}}"#;

/// A site whose calls need approval.
fn site() -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", "\n[tools]\nask = [\"list_files\"]\n");
    for (name, calls) in [("plan.json", 3), ("shorter.json", 2)] {
        let steps = [CALL].repeat(calls).join(", ");
        site.write(name, &format!("{{\"steps\": [{steps}]}}"));
    }
    site
}

fn with_code(site: &Site, code: i32, arguments: &[&str]) -> Output {
    let output = site.run(arguments);
    assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
    output
}

/// Two copies of a run of calls: one is approved, edited and denied, one is forked and cancelled.
fn decide_everything(site: &Site) {
    let waits = 3;
    with_code(
        site,
        waits,
        &["run", "--session", "s", "--plan", "plan.json"],
    );
    with_code(site, 0, &["approve", "s", "approval-1.1.1.0.0", "--yes"]);
    with_code(site, waits, &["resume", "s"]);
    with_code(site, 0, &["pause", "s", "--reason", "lunch"]);
    with_code(
        site,
        0,
        &["plan", "edit", "s", "--file", "shorter.json", "--yes"],
    );
    with_code(site, 0, &["fork", "s", "--new-session", "f"]);
    with_code(site, waits, &["resume", "s"]);
    let deny = [
        "decide",
        "s",
        "approval-1.2.1.0.0",
        "deny",
        "--reason",
        "no",
    ];
    with_code(site, 0, &deny);
    with_code(site, 0, &["cancel", "f", "--reason", "enough"]);
}

#[test]
fn who_decided_is_shown_by_log_show_and_export() {
    let site = site();
    decide_everything(&site);
    let who = format!("uid:{}", rustix::process::geteuid().as_raw());
    let of_s = [
        "started the run",
        "decided approval-1.1.1.0.0: approve",
        "paused the run: lunch",
        "put revision 2 into force",
        "resumed the run",
        "decided approval-1.2.1.0.0: deny",
    ];
    let of_f = ["forked it from s", "cancelled the run: enough"];
    for (session, decisions) in [("s", &of_s[..]), ("f", &of_f[..])] {
        let log = with_code(&site, 0, &["log", session]).out;
        let show = with_code(&site, 0, &["show", session]).out;
        for decision in decisions {
            let mut lines = log.lines().zip(log.lines().skip(1));
            let named = |(at, what): (&str, &str)| at.contains(&who) && what.contains(decision);
            assert!(lines.any(named), "{decision}: {log}");
            let mut lines = show.lines();
            let named = |line: &str| line.contains(&who) && line.contains(decision);
            assert!(lines.any(named), "{decision}: {show}");
        }
    }
    let kinds = ["decided", "run_paused", "plan_applied", "run_resumed"];
    check_export(&site, "s", &who, &kinds);
    check_export(&site, "f", &who, &["forked_from", "run_cancelled"]);
}

/// An event of each kind names the person; others follow from what a person decided, and name nobody.
fn check_export(site: &Site, session: &str, who: &str, kinds: &[&str]) {
    let exported = with_code(site, 0, &["export", session]).out;
    let events: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for kind in kinds {
        let mut of_kind = events.iter().filter(|event| event["kind"] == *kind);
        let is_named = of_kind.any(|event| event["principal"]["subject"] == who);
        assert!(is_named, "{kind}: {exported}");
    }
}
