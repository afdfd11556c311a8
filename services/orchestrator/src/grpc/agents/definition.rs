//! What a source defines, as clients get it.

use cairn_agents::agent::{AgentFile, Effort, Mode};
use cairn_agents::{AgentBudgets, AgentCompaction, Tools};
use cairn_engine::agent::AgentDefinition;
use cairn_proto::api as pb;
use cairn_proto::event::{WhenFull, Window};
use cairn_proto::time::duration;

/// Every field, in the form of the contract.
pub(super) fn message(file: AgentFile) -> pb::AgentDefinition {
    let names = |names| pb::NameList { names };
    pb::AgentDefinition {
        title: file.title,
        description: file.description,
        prompt: file.prompt,
        models: file.model,
        tools: Some(tools(file.tools)),
        denied: file.denied,
        asked: file.ask,
        mode: mode(file.mode).into(),
        hidden: file.is_hidden,
        disabled: file.is_disabled,
        limits: Some(pb::AgentLimits {
            max_turns: file.max_turns,
            max_tool_turns: file.max_tool_turns,
            ..limits(file.cairn.budgets)
        }),
        temperature: file.temperature_milli.map(thousandths),
        effort: effort(file.effort).into(),
        skills: file.skills.map(names),
        agents: file.agents.map(names),
        mcp_servers: file.mcp_servers,
        hooks: file.hooks,
        metadata: file.metadata,
        capabilities: file.cairn.capabilities,
        compaction: Some(compaction(file.cairn.compaction)),
        window: file.cairn.window.map(|messages| Window { messages }),
    }
}

/// A stored agent with what counts of it.
pub(super) fn narrowed(stored: AgentFile, counts: AgentDefinition) -> pb::AgentDefinition {
    let limits = counts.limits;
    let budgets = AgentBudgets {
        tokens: limits.tokens,
        cost_nano_usd: limits.cost_nano_usd,
        time_ms: limits.time_ms,
        calls: limits.calls.map(u64::from),
    };
    let mut file = stored;
    file.tools = counts.tools.map_or(Tools::All, Tools::Only);
    file.denied = counts.denied;
    file.ask = counts.asked;
    file.max_turns = limits.max_turns;
    file.max_tool_turns = limits.max_tool_turns;
    file.cairn.budgets = budgets;
    file.skills = Some(counts.skills.into_iter().map(|it| it.name).collect());
    message(file)
}

fn tools(tools: Tools) -> pb::agent_definition::Tools {
    use pb::agent_definition::Tools as Offered;
    match tools {
        Tools::All => Offered::All(pb::AllTools {}),
        Tools::Only(patterns) => Offered::Only(pb::ToolPatterns { patterns }),
    }
}

/// Who can use the agent.
pub(super) fn mode(mode: Mode) -> pb::AgentMode {
    match mode {
        Mode::Primary => pb::AgentMode::Primary,
        Mode::Subagent => pb::AgentMode::Subagent,
        Mode::All => pb::AgentMode::All,
    }
}

fn effort(effort: Option<Effort>) -> pb::AgentEffort {
    match effort {
        None => pb::AgentEffort::Unspecified,
        Some(Effort::Minimal) => pb::AgentEffort::Minimal,
        Some(Effort::Low) => pb::AgentEffort::Low,
        Some(Effort::Medium) => pb::AgentEffort::Medium,
        Some(Effort::High) => pb::AgentEffort::High,
        Some(Effort::XHigh) => pb::AgentEffort::Xhigh,
        Some(Effort::Max) => pb::AgentEffort::Max,
    }
}

/// Limits without those of turns.
fn limits(budgets: AgentBudgets) -> pb::AgentLimits {
    let cost = |nanos: u64| pb::Cost {
        nanos_usd: i64::try_from(nanos).unwrap_or(i64::MAX),
    };
    pb::AgentLimits {
        max_tokens: budgets.tokens,
        max_cost: budgets.cost_nano_usd.map(cost),
        max_active_time: budgets.time_ms.map(duration),
        max_calls: budgets.calls,
        ..pb::AgentLimits::default()
    }
}

fn compaction(compaction: AgentCompaction) -> pb::AgentCompaction {
    pb::AgentCompaction {
        at: compaction.at_permille.map(thousandths),
        keep_turns: compaction.keep_turns,
        when_full: WhenFull::from(compaction.when_full).into(),
    }
}

fn thousandths(number: u32) -> f64 {
    f64::from(number) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_agents::agent::parse;
    use cairn_proto::json;

    /// A field that is read and not sent would be missed by every client.
    #[test]
    fn every_field_of_a_source_is_a_field_of_the_definition() {
        let text = "---\nname: a\ndescription: D\nmodel: [m, n]\ntools: [Read, \"g__*\"]\ndisallowed-tools: g__x\n\
            permission: {g__y: ask}\nmax-turns: 40\nmax-tool-turns: 8\ntemperature: 0.25\neffort: xhigh\n\
            mode: primary\nhidden: true\ndisable: true\nskills: [s]\nagents: [b]\nmcp-servers: [g]\nhooks: [h]\n\
            metadata: {k: v}\ncairn:\n  capabilities: [c]\n  budgets: {tokens: 5, cost: 1.5, time: 20m, calls: 6}\n  \
            compaction: {at: 0.6, keep-turns: 2, when-full: refuse}\n  window: 20\n---\nPrompt.\n";
        let file = parse("a.md", text).unwrap().value;
        let json = json::fields("cairn.api.v1.AgentDefinition", &message(file));
        let expected = serde_json::json!({
            "title": null,
            "description": "D",
            "prompt": "Prompt.",
            "models": ["m", "n"],
            "only": {"patterns": ["g__*", "read_file"]},
            "denied": ["g__x"],
            "asked": ["g__y"],
            "mode": "primary",
            "hidden": true,
            "disabled": true,
            "limits": {
                "max_turns": 40,
                "max_tool_turns": 8,
                "max_tokens": 5,
                "max_cost": {"nanos_usd": 1_500_000_000},
                "max_active_time": "1200s",
                "max_calls": 6,
            },
            "temperature": 0.25,
            "effort": "xhigh",
            "skills": {"names": ["s"]},
            "agents": {"names": ["b"]},
            "mcp_servers": ["g"],
            "hooks": ["h"],
            "metadata": {"k": "v"},
            "capabilities": ["c"],
            "compaction": {"at": 0.6, "keep_turns": 2, "when_full": "refuse"},
            "window": {"messages": 20},
        });
        assert_eq!(serde_json::Value::from(json), expected);
    }

    #[test]
    fn what_a_source_leaves_open_is_not_set() {
        let file = parse("a.md", "Prompt.").unwrap().value;
        let definition = message(file);
        let tools = pb::agent_definition::Tools::All(pb::AllTools {});
        assert_eq!(definition.tools, Some(tools));
        assert_eq!(definition.limits, Some(pb::AgentLimits::default()));
        assert_eq!(definition.compaction, Some(pb::AgentCompaction::default()));
        assert_eq!((definition.skills, definition.agents), (None, None));
        assert_eq!(definition.temperature, None);
        assert_eq!(definition.mode, i32::from(pb::AgentMode::All));
    }
}
