//! Agents, and the command about them.

use super::turns::when_full;
use super::{number, seq, text};
use cairn_engine::agent::{AgentCompaction, AgentDefinition, AgentLimits, SkillOffer};
use cairn_engine::command::{AgentSwitched, Command, SwitchAgent};
use cairn_engine::event::{AgentDefined, AgentUse, EventKind};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

pub(super) fn used() -> impl Strategy<Value = AgentUse> {
    (text(), text()).prop_map(|(name, digest)| AgentUse { name, digest })
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    (text(), text()).prop_map(|(context, agent)| SwitchAgent { context, agent }.into())
}

fn limits() -> impl Strategy<Value = AgentLimits> {
    let counts = (
        option::of(number()),
        option::of(number()),
        option::of(number()),
    );
    let sums = (option::of(seq()), option::of(seq()), option::of(seq()));
    (counts, sums).prop_map(
        |((max_tool_turns, max_turns, calls), (tokens, cost_nano_usd, time_ms))| AgentLimits {
            max_tool_turns,
            max_turns,
            tokens,
            cost_nano_usd,
            time_ms,
            calls,
        },
    )
}

fn compaction() -> impl Strategy<Value = AgentCompaction> {
    (option::of(number()), option::of(number()), when_full()).prop_map(
        |(at_permille, keep_turns, when_full)| AgentCompaction {
            at_permille,
            keep_turns,
            when_full,
        },
    )
}

fn skill() -> impl Strategy<Value = SkillOffer> {
    (text(), text(), text()).prop_map(|(name, description, digest)| SkillOffer {
        name,
        description,
        digest,
    })
}

fn definition() -> impl Strategy<Value = AgentDefinition> {
    let texts = (text(), text(), text(), text());
    let tools = (
        option::of(vec(text(), 0..3)),
        vec(text(), 0..3),
        vec(text(), 0..3),
        vec(text(), 0..3),
        vec(text(), 0..3),
    );
    let numbers = (
        limits(),
        option::of(number()),
        compaction(),
        option::of(number()),
    );
    (texts, tools, numbers, vec(skill(), 0..3)).prop_map(|(texts, tools, numbers, skills)| {
        let (name, prompt, model, instructions) = texts;
        let (tools, denied, asked, capabilities, hooks) = tools;
        let (limits, temperature_milli, compaction, window) = numbers;
        AgentDefinition {
            name,
            prompt,
            model,
            tools,
            denied,
            asked,
            limits,
            temperature_milli,
            compaction,
            window,
            skills,
            instructions,
            capabilities,
            hooks,
        }
    })
}

pub(super) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
    let defined = (definition(), text(), text());
    let defined = defined.prop_map(|(agent, digest, capabilities)| AgentDefined {
        agent: Arc::new(agent),
        digest,
        capabilities,
    });
    let switched = (text(), option::of(used()));
    let switched = switched.prop_map(|(context, agent)| AgentSwitched { context, agent });
    vec![
        ("agent_defined", defined.prop_map(EventKind::from).boxed()),
        ("agent_switched", switched.prop_map(EventKind::from).boxed()),
    ]
}
