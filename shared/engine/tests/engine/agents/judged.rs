//! What an agent may call, for any lists of patterns and any calls of its model.

use super::{check, know, start};
use crate::world::{World, chain, look, model_step, tool_call};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::event::{Effect, EventKind};
use cairn_engine::pending::pending;
use cairn_engine::rules::{Answer, Rule, Rules};
use cairn_engine::session::CallStatus;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

const PATTERNS: [&str; 9] = [
    "*",
    "look",
    "p*",
    "send",
    "exec",
    "pe*",
    "step",
    "session_memory_*",
    "scratchpad",
];
const TOOLS: [&str; 15] = [
    "look",
    "put",
    "send",
    "exec",
    "pay",
    "peek",
    "step",
    "scratchpad",
    "report_generator",
    "retrieve",
    "save_knowledge",
    "session_memory_set",
    "session_memory_list",
    "read_skill",
    "nothing",
];
/// Tools that the owner answers, whatever the agent's list says.
const ALWAYS: [&str; 2] = ["step", "scratchpad"];

fn patterns() -> impl Strategy<Value = Vec<String>> {
    vec(select(&PATTERNS[..]).prop_map(str::to_owned), 0..4)
}

fn definition() -> impl Strategy<Value = AgentDefinition> {
    (option::of(patterns()), patterns(), patterns()).prop_map(|(tools, denied, asked)| {
        AgentDefinition {
            tools,
            denied,
            asked,
            ..AgentDefinition::named("any")
        }
    })
}

/// A pattern has at most one `*`, at its end.
fn is_match(patterns: &[String], tool: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => tool.starts_with(start),
            None => pattern == tool,
        })
}

/// The definition lets its model call the tool.
fn has(agent: &AgentDefinition, tool: &str) -> bool {
    let is_denied = is_match(&agent.denied, tool);
    match tool {
        "read_skill" => false,
        tool if ALWAYS.contains(&tool) => true,
        "report_generator" | "retrieve" | "save_knowledge" => !is_denied,
        tool if tool.starts_with("session_memory_") => !is_denied,
        tool => {
            let only = agent.tools.as_deref();
            only.is_none_or(|only| is_match(only, tool)) && !is_denied
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_call_outside_the_list_is_sent(agent in definition(), tools in vec(select(&TOOLS[..]), 1..6)) {
        let mut world = World::new();
        know(&mut world, agent.clone());
        start(&mut world, chain(vec![model_step("one")]), "any");
        let attempt = world.attempt(1);
        for tool in TOOLS {
            let is_offered = world.session.offers(attempt, tool, &world.pool.grants);
            prop_assert_eq!(is_offered, has(&agent, tool), "{}", tool);
        }
        let arguments = json!({"text": "a note", "key": "k", "value": "v", "plan": ["a", "b"]});
        let calls: Vec<_> = tools.iter().map(|tool| tool_call(tool, &arguments)).collect();
        world.reply(1, "", &calls);
        for (tool, index) in tools.iter().zip(0..) {
            let Some(call) = world.session.call(world.call(1, index)) else {
                continue;
            };
            let is_of_tools = call.effect != Effect::State;
            let is_there = world.tools.contains_key(*tool);
            prop_assert_eq!(is_of_tools, is_there && has(&agent, tool), "{}", tool);
            if !is_of_tools && !has(&agent, tool) {
                let is_unknown =
                    matches!(&call.status, CallStatus::Finished { reason, .. } if reason == "NotFound");
                prop_assert!(is_unknown, "{}: {:?}", tool, call.status);
            }
            if is_of_tools {
                let asks = is_match(&agent.asked, tool) || matches!(*tool, "pay" | "peek");
                let is_asked = matches!(call.status, CallStatus::Asking { .. });
                prop_assert_eq!(is_asked, asks, "{}: {:?}", tool, call.status);
            }
        }
        check(&world);
    }
}

fn rule(tool: &str, agent: &str, answer: Answer) -> Rule {
    Rule {
        tool: tool.to_owned(),
        when: Default::default(),
        agent: Some(agent.to_owned()),
        answer,
    }
}

/// The status of a call of `look` by an agent.
fn status(rules: Vec<Rule>, agent: &AgentDefinition) -> CallStatus {
    let mut world = World::new();
    world.rules = Rules::new(rules).unwrap();
    know(&mut world, agent.clone());
    start(&mut world, chain(vec![model_step("one")]), &agent.name);
    world.reply(1, "", &[look()]);
    world.session.call(world.call(1, 0)).unwrap().status.clone()
}

#[test]
fn rules_know_an_agent_by_its_name() {
    let reviewer = AgentDefinition::named("reviewer");
    let denied = |status: &CallStatus| matches!(status, CallStatus::Finished { reason, .. } if reason == "Denied");
    for (name, is_denied) in [("reviewer", true), ("default", false), ("other", false)] {
        let status = status(vec![rule("look", name, Answer::Deny)], &reviewer);
        assert_eq!(denied(&status), is_denied, "{name}: {status:?}");
    }
    // A rule that allows opens nothing that the definition asks about or denies.
    let asking = AgentDefinition {
        asked: vec!["look".to_owned()],
        ..reviewer.clone()
    };
    let allow = || vec![rule("look", "reviewer", Answer::Allow)];
    let asked = status(allow(), &asking);
    assert!(matches!(asked, CallStatus::Asking { .. }), "{asked:?}");
    let denying = AgentDefinition {
        denied: vec!["look".to_owned()],
        ..reviewer
    };
    let unknown = status(allow(), &denying);
    assert!(
        matches!(&unknown, CallStatus::Finished { reason, .. } if reason == "NotFound"),
        "{unknown:?}"
    );
}

#[test]
fn an_approval_of_further_calls_is_for_the_agent_that_asked() {
    let mut world = World::new();
    for name in ["reviewer", "writer"] {
        know(
            &mut world,
            AgentDefinition {
                asked: vec!["look".to_owned()],
                ..AgentDefinition::named(name)
            },
        );
    }
    let plan = || chain(vec![model_step("one")]);
    start(&mut world, plan(), "reviewer");
    world.reply(1, "", &[look()]);
    let question = pending(&world.session)[0].id().to_string();
    let events = world.answer(&question, crate::judging::always(&[]));
    let granted = events.iter().find_map(|event| match &event.kind {
        EventKind::ApprovalGranted(granted) => Some(granted.agent.as_str()),
        _ => None,
    });
    assert_eq!(granted, Some("reviewer"));
    world.result(1, 0, "seen");
    world.reply(1, "", &[look()]);
    let is_asking = |world: &World| {
        let call = world.session.call(world.call(1, 0)).unwrap();
        matches!(call.status, CallStatus::Asking { .. })
    };
    assert!(!is_asking(&world), "it was approved");
    world.result(1, 0, "seen");
    world.complete(1, "done");
    start(&mut world, plan(), "writer");
    world.reply(1, "", &[look()]);
    assert!(is_asking(&world), "nothing was approved for it");
    check(&world);
}
