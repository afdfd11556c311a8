//! Agents, as sessions keep them.

use super::error::{ConvertError, repeated, required};
use super::wire::{OnWire, plain_record, record};
use crate::event as proto;
use cairn_engine::agent::{AgentCompaction, AgentDefinition, AgentLimits, SkillOffer};
use cairn_engine::command::{AgentSwitched, SwitchAgent};
use cairn_engine::event::AgentUse;
use std::sync::Arc;

plain_record! { AgentUse => proto::AgentUse { name, digest } }
plain_record! { SwitchAgent => proto::SwitchAgent { context, agent } }
plain_record! { SkillOffer => proto::SkillOffer { name, description, digest } }
plain_record! {
    AgentLimits => proto::AgentLimits {
        max_tool_turns, max_turns, tokens, cost_nano_usd, time_ms, calls
    }
}
record! { AgentSwitched => proto::AgentSwitched { context, agent } }

/// The plain default agent has none.
impl OnWire<Option<proto::AgentUse>> for Option<AgentUse> {
    fn to_wire(self) -> Option<proto::AgentUse> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::AgentUse>, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.map(Into::into))
    }
}

impl From<AgentCompaction> for proto::AgentCompaction {
    fn from(compaction: AgentCompaction) -> Self {
        Self {
            at_permille: compaction.at_permille,
            keep_turns: compaction.keep_turns,
            when_full: compaction.when_full.to_wire(),
        }
    }
}

impl TryFrom<proto::AgentCompaction> for AgentCompaction {
    type Error = ConvertError;

    fn try_from(compaction: proto::AgentCompaction) -> Result<Self, ConvertError> {
        Ok(Self {
            at_permille: compaction.at_permille,
            keep_turns: compaction.keep_turns,
            when_full: OnWire::from_wire(compaction.when_full, "when_full")?,
        })
    }
}

impl From<AgentDefinition> for proto::AgentDefinition {
    fn from(agent: AgentDefinition) -> Self {
        Self {
            name: agent.name,
            prompt: agent.prompt,
            model: agent.model,
            tools: agent.tools.map(|patterns| proto::ToolPatterns { patterns }),
            denied: agent.denied,
            asked: agent.asked,
            limits: Some(agent.limits.into()),
            temperature_milli: agent.temperature_milli,
            compaction: Some(agent.compaction.into()),
            window: agent.window,
            skills: agent.skills.into_iter().map(Into::into).collect(),
            instructions: agent.instructions,
            capabilities: agent.capabilities,
            hooks: agent.hooks,
        }
    }
}

/// Without limits or compaction they are as the settings say.
impl TryFrom<proto::AgentDefinition> for AgentDefinition {
    type Error = ConvertError;

    fn try_from(agent: proto::AgentDefinition) -> Result<Self, ConvertError> {
        Ok(Self {
            name: agent.name,
            prompt: agent.prompt,
            model: agent.model,
            tools: agent.tools.map(|tools| tools.patterns),
            denied: agent.denied,
            asked: agent.asked,
            limits: agent.limits.map(Into::into).unwrap_or_default(),
            temperature_milli: agent.temperature_milli,
            compaction: match agent.compaction {
                None => AgentCompaction::default(),
                compaction => required("compaction", compaction)?,
            },
            window: agent.window,
            skills: repeated("skills", agent.skills)?,
            instructions: agent.instructions,
            capabilities: agent.capabilities,
            hooks: agent.hooks,
        })
    }
}

/// Sessions share a definition with all that uses it.
impl OnWire<Option<proto::AgentDefinition>> for Arc<AgentDefinition> {
    fn to_wire(self) -> Option<proto::AgentDefinition> {
        Some(Self::unwrap_or_clone(self).into())
    }

    fn from_wire(wire: Option<proto::AgentDefinition>, field: &str) -> Result<Self, ConvertError> {
        required(field, wire).map(Self::new)
    }
}
