//! A server of the Model Context Protocol with tools that have effects, and a person who answers what
//! they ask.

use super::CAIRN;
use cairn_testkit::{Journal, Output, Site};
use serde_json::Value;

/// Its program, for `sh`. Without the line that describes a tool it describes it otherwise.
pub(crate) const SERVER: &str = include_str!("mcp_server.sh");
/// Allows its tools, which would ask.
pub(crate) const ALLOW: &str = "\n[[tools.rules]]\ntool = \"ops__*\"\nanswer = \"allow\"\n";
/// A tool that asks before it has its effect.
pub(crate) const DEPLOY: &str =
    r#"{"steps": [{"tool": "ops__deploy", "arguments": {"env": "prod"}}]}"#;
/// A tool that has its effect, and lasts as long as there is a file `hold`.
pub(crate) const RESTART: &str = r#"{"steps": [{"tool": "ops__restart", "arguments": {}}]}"#;
pub(crate) const RUN: [&str; 7] = [
    "run",
    "--plan",
    "plan.json",
    "--session",
    "s",
    "--request-id",
    "r-1",
];

const SETTINGS: &str = "\n[mcp.servers.ops]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n\
    protocol = \"2026-07-28\"\ntime_limit_ms = 2000\n";

/// A folder with the server in its settings.
pub(crate) fn site(plan: &str, rules: &str) -> Site {
    let site = Site::new(CAIRN);
    site.write("server.sh", SERVER);
    site.write("plan.json", plan);
    site.append("cairn.toml", &format!("{SETTINGS}{rules}"));
    site
}

/// What the server has done.
pub(crate) fn effects(site: &Site) -> Vec<String> {
    let effects = site.read("effects").unwrap_or_default();
    effects.lines().map(str::to_owned).collect()
}

/// The open questions of the session.
pub(crate) fn pending(site: &Site, server: &[&str]) -> Vec<Value> {
    let output = site.run(&[&["pending", "s", "--json"], server].concat());
    let lines = output.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Answers what is asked, knowing what the server has done; without a question it continues the run.
pub(crate) fn go_on(site: &Site, server: &[&str], variables: &[(&str, &str)]) -> Output {
    let asked = pending(site, server).into_iter().next();
    let Some(asked) = asked.filter(|asked| asked["answered"] != true) else {
        return site.run_with(&[&["resume", "s"], server].concat(), variables);
    };
    let id = asked["id"].as_str().expect("an id");
    let answer: &[&str] = match asked["reason"].as_str() {
        Some("question") => &["answer", "yes"],
        Some("in_doubt") if effects(site).is_empty() => &["retry"],
        Some("in_doubt") => &["done", "--output", "done already"],
        other => panic!("{other:?}: {asked}"),
    };
    let decide = ["decide", "s", id];
    site.run_with(&[&decide, answer, server].concat(), variables)
}

/// The journal of the session, once its run has ended.
pub(crate) fn ended(site: &Site, server: &[&str]) -> Option<Journal> {
    let exported = site.run(&[&["export", "s"], server].concat());
    let journal = (exported.code == Some(0)).then(|| Journal::read(&exported.out))?;
    (!journal.of_kind("run_completed").is_empty()).then_some(journal)
}
