//! What becomes of a call, by rules, defaults and approvals in force.

use super::{always, call, edit, end, rule, status, world};
use crate::world::tool_call;
use cairn_engine::decide::ToolFacts;
use cairn_engine::event::CallFinished;
use cairn_engine::rules::{Answer, Rule, Rules};
use cairn_engine::session::CallStatus;
use serde_json::json;

/// Each cell by hand: rows are rules, a default and an approval in force; columns are calls.
#[test]
fn rules_defaults_and_approvals_judge_each_call() {
    use Answer::{Allow, Ask, Deny};
    let read = |answer, path| rule("read", path, answer);
    let any = |answer, path| rule("*", path, answer);
    let for_other = |answer| Rule {
        agent: Some("other".to_owned()),
        ..rule("*", None, answer)
    };
    let docs = Some("docs/**");
    // Rules, the default, what edit is approved for; what became of: edit docs/a, edit docs/b,
    // read docs/a, read docs/../x.
    type Row = (Vec<Rule>, Answer, Option<&'static str>, [&'static str; 4]);
    let table: Vec<Row> = vec![
        (vec![], Ask, None, ["asks", "asks", "asks", "asks"]),
        (vec![], Allow, None, ["sent", "sent", "sent", "sent"]),
        (
            vec![],
            Ask,
            Some("docs/a"),
            ["sent", "asks", "asks", "asks"],
        ),
        (vec![], Ask, docs, ["sent", "sent", "asks", "asks"]),
        (
            vec![any(Ask, docs)],
            Allow,
            None,
            ["asks", "asks", "asks", "sent"],
        ),
        (
            vec![any(Ask, docs)],
            Allow,
            Some("docs/a"),
            ["sent", "asks", "asks", "sent"],
        ),
        (
            vec![any(Deny, docs)],
            Ask,
            docs,
            ["denied", "denied", "denied", "asks"],
        ),
        (
            vec![any(Deny, None)],
            Allow,
            docs,
            ["denied", "denied", "denied", "denied"],
        ),
        (
            vec![read(Allow, docs)],
            Ask,
            None,
            ["asks", "asks", "sent", "asks"],
        ),
        (
            vec![read(Deny, docs)],
            Ask,
            Some("docs/b"),
            ["asks", "sent", "denied", "asks"],
        ),
        (
            vec![any(Allow, None), read(Ask, docs)],
            Deny,
            None,
            ["sent", "sent", "asks", "sent"],
        ),
        (
            vec![any(Allow, docs), any(Deny, Some("docs/b"))],
            Ask,
            docs,
            ["sent", "denied", "sent", "asks"],
        ),
        (
            vec![for_other(Deny)],
            Ask,
            docs,
            ["sent", "sent", "asks", "asks"],
        ),
        (
            vec![for_other(Allow)],
            Ask,
            None,
            ["asks", "asks", "asks", "asks"],
        ),
    ];
    let calls = [
        ("edit", "docs/a"),
        ("edit", "docs/b"),
        ("read", "docs/a"),
        ("read", "docs/../x"),
    ];
    for (rules, default, approved, expected) in table {
        let shown: Vec<_> = rules.iter().map(Rule::to_line).collect();
        for ((tool, path), expected) in calls.iter().zip(expected) {
            let mut world = world();
            if let Some(pattern) = approved {
                // An approval of calls of edit is in force.
                world.reply(
                    1,
                    "",
                    &[call(if pattern == "docs/b" {
                        "docs/b"
                    } else {
                        "docs/a"
                    })],
                );
                world.answer("approval-1.1.1.0.0", always(&[("path", pattern)]));
                end(&mut world);
            }
            for name in ["edit", "read"] {
                let facts = ToolFacts {
                    default,
                    ..edit("first")
                };
                world.tools.insert(name.to_owned(), facts);
            }
            world.rules = Rules::new(rules.clone()).unwrap();
            world.reply(1, "", &[tool_call(tool, &json!({ "path": path }))]);
            let became = match status(&world) {
                CallStatus::Asking { .. } => "asks",
                CallStatus::Intended { .. } => "sent",
                CallStatus::Finished { reason, .. } if reason == CallFinished::DENIED => "denied",
                other => panic!("{other:?}"),
            };
            assert_eq!(
                became, expected,
                "{tool} {path}: {shown:?}, default {default:?}, approved {approved:?}"
            );
        }
    }
}
