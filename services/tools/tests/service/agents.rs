//! Calls of agents that rules name.

use crate::support::{World, request};
use cairn_engine::rules::{Answer, Rule};
use cairn_tools::{Request, ToolError};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_rule_for_an_agent_holds_for_its_calls_alone() {
    let world = World::with(|config, _| {
        config.rules = vec![Rule {
            tool: "read_file".to_owned(),
            when: BTreeMap::from([("path".to_owned(), "secret/**".to_owned())]),
            agent: Some("reviewer".to_owned()),
            answer: Answer::Deny,
        }];
    });
    world.put("secret/a.md", "S");
    world.put("b.md", "B");
    for (agent, path, is_denied) in [
        ("reviewer", "secret/a.md", true),
        ("reviewer", "b.md", false),
        ("workspace:reviewer", "secret/a.md", false),
        ("", "secret/a.md", false),
    ] {
        let request = Request {
            agent: agent.to_owned(),
            ..request("read_file", &format!("{{\"path\": \"{path}\"}}"))
        };
        let result = world.tools.invoker().invoke(request).await.result;
        let denied = matches!(result, Err(ToolError::Denied(_)));
        assert_eq!(denied, is_denied, "{agent} {path}: {result:?}");
    }
}
