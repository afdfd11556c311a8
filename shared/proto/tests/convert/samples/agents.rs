//! Agents, and what uses them.

use super::turns::received;
use super::{Kinds, unlimited};
use cairn_engine::agent::{AgentCompaction, AgentDefinition, AgentLimits, SkillOffer};
use cairn_engine::command::{
    AgentSwitched, ContextCreated, CreateContext, StartRun, SwitchAgent, WhenFull,
};
use cairn_engine::event::{AgentDefined, AgentUse, RunStarted};
use cairn_engine::rules::DEFAULT_AGENT;
use std::sync::Arc;

const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn used() -> Option<AgentUse> {
    Some(AgentUse {
        name: "reviewer".into(),
        digest: DIGEST.into(),
    })
}

pub(super) fn reviewer() -> AgentDefinition {
    AgentDefinition {
        name: "reviewer".into(),
        prompt: "You review.".into(),
        model: "offline".into(),
        tools: Some(vec!["read_file".into(), "github__*".into()]),
        denied: vec!["github__delete_*".into()],
        asked: vec!["github__create_issue".into()],
        limits: AgentLimits {
            max_tool_turns: Some(20),
            max_turns: Some(50),
            tokens: Some(1_000_000),
            cost_nano_usd: Some(2_500_000_000),
            time_ms: Some(600_000),
            calls: Some(40),
        },
        temperature_milli: Some(0),
        compaction: AgentCompaction {
            at_permille: Some(600),
            keep_turns: Some(2),
            when_full: Some(WhenFull::Refuse),
        },
        window: None,
        skills: vec![SkillOffer {
            name: "release".into(),
            description: "Cuts a release.".into(),
            digest: DIGEST.into(),
        }],
        instructions: "Write tests first.".into(),
        capabilities: Vec::new(),
        hooks: Vec::new(),
    }
}

pub(super) fn events() -> Kinds {
    let defined = AgentDefined {
        agent: Arc::new(reviewer()),
        digest: DIGEST.into(),
        capabilities: "# What you can call".into(),
    };
    let default = AgentDefined {
        agent: Arc::new(AgentDefinition {
            instructions: "Write tests first.".into(),
            ..AgentDefinition::named(DEFAULT_AGENT)
        }),
        digest: DIGEST.into(),
        capabilities: String::new(),
    };
    let brief = AgentDefined {
        agent: Arc::new(AgentDefinition {
            window: Some(20),
            ..AgentDefinition::named("brief")
        }),
        digest: DIGEST.into(),
        capabilities: String::new(),
    };
    let started = RunStarted {
        run: 2,
        goal: "Review it".into(),
        limits: unlimited(),
        model: String::new(),
        trace_parent: String::new(),
        turn: None,
        agent: used(),
        hooks: Vec::new(),
    };
    let switched = |agent| AgentSwitched {
        context: "draft".into(),
        agent,
    };
    let created = ContextCreated {
        context: "draft".into(),
        agent: used(),
    };
    vec![
        ("agent_defined", defined.into()),
        ("agent_defined.default", default.into()),
        ("agent_defined.window", brief.into()),
        ("agent_switched", switched(used()).into()),
        ("agent_switched.default", switched(None).into()),
        ("run_started.agent", started.into()),
        ("context_created.agent", created.into()),
    ]
}

pub(super) fn commands() -> Kinds {
    let start = StartRun {
        goal: "Review it".into(),
        agent: "reviewer".into(),
        ..StartRun::default()
    };
    let create = CreateContext {
        name: "draft".into(),
        agent: "reviewer".into(),
        ..CreateContext::default()
    };
    let switch = SwitchAgent {
        context: "draft".into(),
        agent: "reviewer".into(),
    };
    vec![
        ("command_received.start_run.agent", received("q-45", start)),
        (
            "command_received.create_context.agent",
            received("q-46", create),
        ),
        ("command_received.switch_agent", received("q-47", switch)),
    ]
}
