//! `cairn agent show`: what an agent's file defines.

use super::list::mode_name;
use super::put::fault;
use super::{findings, not_found, workspace};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::block;
use crate::ui::time::{age, span};
use cairn_engine::text::counted;
use cairn_proto::api::agent_definition::Tools;
use cairn_proto::api::{
    Agent, AgentCompaction, AgentDefinition, AgentEffort, AgentLimits, GetAgentRequest, NameList,
};
use cairn_proto::event::WhenFull;
use cairn_proto::json;
use cairn_proto::time::unix_ms;
use cairn_rpc::text::escape;
use cairn_rpc::{Clock as _, SystemClock};
use cairn_views::figures::dollars;

/// Labels of the fields that a file takes something away from.
const NARROWED: [&str; 5] = ["tools", "denied", "asked", "limits", "skills"];

/// The arguments of `cairn agent show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields that the file leaves open are left out: models, limits and more then come from the settings.

workspace:NAME is the agent of a confirmed file of the workspace. A confirmed file with the name of a stored
agent narrows it: then what counts is shown, too.

With --json one object: name, version, digest, change_time, source (the text of the file), definition,
warnings, narrowed (what counts of the definition, or null).

Examples:
  cairn agent show reviewer
  cairn agent show workspace:reviewer
  cairn agent show reviewer --json | jq -r .source")]
pub(super) struct Args {
    /// The agent
    #[arg(value_name = "NAME")]
    name: String,
}

/// Shows an agent.
///
/// # Errors
/// No such agent; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    // Only tools read the files of a workspace. One of them may narrow a stored agent.
    let access = match args.name.starts_with(workspace::PREFIX) {
        true => Access::Make,
        false => Access::Change,
    };
    let mut client = Client::attach_with(context, access, Servers::None).await?;
    let request = GetAgentRequest { name: args.name };
    let got = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.get_agent(request).await }
    });
    let got = got.await;
    let got = got.map_err(|error| not_found(context, error));
    client.finish().await;
    let agent = got?.agent.unwrap_or_default();
    if context.json {
        return out::json(&json::value("cairn.api.v1.Agent", Some(&agent)));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = lines(&agent, now, Style::new(context.color)).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The agent, its fields, its warnings and its prompt.
fn lines(agent: &Agent, now: i64, style: Style) -> Vec<String> {
    let changed = agent.change_time.map(|time| age(unix_ms(time), now));
    let name = style.strong(&escape(&agent.name));
    let changed = changed.unwrap_or_default();
    let origin = match agent.version {
        0 => "a file of the workspace".to_owned(),
        version => format!("version {version}, {changed}"),
    };
    let mut lines = vec![format!("{name} ({origin})")];
    let definition = agent.definition.clone().unwrap_or_default();
    let all = fields(&definition).into_iter();
    let all = all.chain([("digest", agent.digest.clone())]);
    for (label, value) in all.filter(|(_, value)| !value.is_empty()) {
        lines.push(format!("  {label:<13}{}", escape(&value)));
    }
    for warning in &agent.warnings {
        lines.push(findings::warning(&agent.name, &fault(warning), style));
    }
    if let Some(counts) = &agent.narrowed {
        lines.push("  a confirmed file of the workspace narrows it; what counts here:".to_owned());
        let counts = fields(counts).into_iter();
        let counts = counts.filter(|(label, value)| NARROWED.contains(label) && !value.is_empty());
        lines.extend(counts.map(|(label, value)| format!("    {label:<11}{}", escape(&value))));
    }
    if !definition.prompt.is_empty() {
        lines.push(String::new());
        lines.extend(block(&definition.prompt).lines().map(str::to_owned));
    }
    lines
}

/// Labels and values; a value that is empty is not shown.
fn fields(agent: &AgentDefinition) -> Vec<(&'static str, String)> {
    let metadata = agent
        .metadata
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let metadata: Vec<String> = metadata.collect();
    let of_limits = agent.limits.as_ref().map(limits).unwrap_or_default();
    let of_compaction = agent.compaction.as_ref().map(compaction);
    let of_compaction = of_compaction.unwrap_or_default();
    let of_window = agent.window.as_ref();
    let of_window = of_window.map(|window| counted(window.messages, "message"));
    vec![
        ("title", agent.title.clone().unwrap_or_default()),
        ("description", agent.description.clone()),
        ("models", agent.models.join(", then ")),
        ("tools", tools(agent.tools.as_ref())),
        ("denied", agent.denied.join(", ")),
        ("asked", agent.asked.join(", ")),
        ("mode", mode(agent)),
        ("limits", of_limits),
        (
            "temperature",
            agent.temperature.map(number).unwrap_or_default(),
        ),
        ("effort", effort(agent.effort()).to_owned()),
        ("skills", list(agent.skills.as_ref())),
        ("agents", list(agent.agents.as_ref())),
        ("servers", agent.mcp_servers.join(", ")),
        ("hooks", agent.hooks.join(", ")),
        ("capabilities", agent.capabilities.join(", ")),
        ("compaction", of_compaction),
        ("window", of_window.unwrap_or_default()),
        ("metadata", metadata.join(", ")),
    ]
}

fn tools(tools: Option<&Tools>) -> String {
    match tools {
        Some(Tools::Only(only)) if only.patterns.is_empty() => "none".to_owned(),
        Some(Tools::Only(only)) => only.patterns.join(", "),
        Some(Tools::All(_)) => "all".to_owned(),
        // In a form that only another version knows.
        None => "?".to_owned(),
    }
}

fn mode(agent: &AgentDefinition) -> String {
    let mut words = vec![mode_name(agent.mode())];
    words.extend(agent.hidden.then_some("hidden"));
    words.extend(agent.disabled.then_some("disabled"));
    words.join(", ")
}

fn limits(limits: &AgentLimits) -> String {
    let cost = limits.max_cost.as_ref().map(|cost| {
        let nanos = cost.nanos_usd.max(0).unsigned_abs();
        format!("${}", dollars(nanos))
    });
    let time = limits.max_active_time.map(|time| {
        let ms = time.seconds.saturating_mul(1000);
        let ms = ms.saturating_add(i64::from(time.nanos / 1_000_000));
        span(ms.max(0).unsigned_abs())
    });
    let limits = [
        limits.max_turns.map(|most| counted(most, "turn")),
        limits.max_tool_turns.map(|most| counted(most, "tool turn")),
        limits.max_tokens.map(|most| counted(most, "token")),
        cost,
        time,
        limits.max_calls.map(|most| counted(most, "call")),
    ];
    limits.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

const fn effort(effort: AgentEffort) -> &'static str {
    match effort {
        AgentEffort::Unspecified => "",
        AgentEffort::Minimal => "minimal",
        AgentEffort::Low => "low",
        AgentEffort::Medium => "medium",
        AgentEffort::High => "high",
        AgentEffort::Xhigh => "xhigh",
        AgentEffort::Max => "max",
    }
}

/// A list; nothing where all are meant.
fn list(list: Option<&NameList>) -> String {
    match list {
        None => String::new(),
        Some(list) if list.names.is_empty() => "none".to_owned(),
        Some(list) => list.names.join(", "),
    }
}

fn compaction(compaction: &AgentCompaction) -> String {
    let when_full = match compaction.when_full() {
        WhenFull::Unspecified => None,
        WhenFull::Refuse => Some("when full refuse".to_owned()),
        WhenFull::Compact => Some("when full compact".to_owned()),
    };
    let keep = compaction.keep_turns;
    let words = [
        compaction.at.map(|at| format!("at {}", number(at))),
        keep.map(|keep| format!("keep {}", counted(keep, "tool turn"))),
        when_full,
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn number(number: f64) -> String {
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::api::{AgentMode, AgentWarning, AllTools, Cost, ToolPatterns};
    use cairn_proto::event::Window;
    use cairn_proto::time::{duration, timestamp};

    const NOW: i64 = 1_800_000_000_000;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn shown(agent: &Agent) -> String {
        lines(agent, NOW, Style::new(false)).join("\n")
    }

    fn full() -> AgentDefinition {
        let names = |list: &[&str]| Some(NameList { names: words(list) });
        AgentDefinition {
            title: Some("Web Researcher".to_owned()),
            description: "Answers questions\nfrom the web".to_owned(),
            prompt: "Answer briefly.\n\nName the\tsource.\u{1b}[2J".to_owned(),
            models: words(&["openai/gpt-5.2", "claude"]),
            tools: Some(Tools::Only(ToolPatterns {
                patterns: words(&["notes__*", "web_search"]),
            })),
            denied: words(&["notes__delete"]),
            asked: words(&["notes__*"]),
            mode: AgentMode::Subagent.into(),
            hidden: true,
            disabled: true,
            limits: Some(AgentLimits {
                max_turns: Some(40),
                max_tool_turns: Some(1),
                max_tokens: Some(300_000),
                max_cost: Some(Cost {
                    nanos_usd: 1_500_000_000,
                }),
                max_active_time: Some(duration(1_200_000)),
                max_calls: Some(60),
            }),
            temperature: Some(0.25),
            effort: AgentEffort::High.into(),
            skills: names(&[]),
            agents: names(&["fact-checker"]),
            mcp_servers: words(&["notes"]),
            hooks: words(&["audit"]),
            metadata: [("team".to_owned(), "web".to_owned())].into(),
            capabilities: words(&["web_search"]),
            compaction: Some(AgentCompaction {
                at: Some(0.6),
                keep_turns: Some(2),
                when_full: WhenFull::Refuse.into(),
            }),
            window: Some(Window { messages: 40 }),
        }
    }

    #[test]
    fn an_agent_is_shown_field_by_field() {
        let agent = Agent {
            name: "web-researcher".to_owned(),
            version: 3,
            digest: "0123abcd".to_owned(),
            change_time: Some(timestamp(NOW - 60_000)),
            definition: Some(full()),
            warnings: vec![AgentWarning {
                line: 4,
                field: "colour".to_owned(),
                problem: "is no field of an agent".to_owned(),
            }],
            ..Agent::default()
        };
        let plain = Agent {
            name: "plain".to_owned(),
            version: 1,
            digest: "4567".to_owned(),
            change_time: Some(timestamp(NOW)),
            definition: Some(AgentDefinition {
                tools: Some(Tools::All(AllTools {})),
                mode: AgentMode::All.into(),
                ..AgentDefinition::default()
            }),
            ..Agent::default()
        };
        let text = [agent, plain].map(|agent| format!("---\n{}\n", shown(&agent)));
        insta::assert_snapshot!("agents_in_full", text.concat());
    }

    #[test]
    fn an_agent_of_the_workspace_has_no_version() {
        let agent = Agent {
            name: "workspace:reviewer".to_owned(),
            ..Agent::default()
        };
        let text = shown(&agent);
        assert!(
            text.starts_with("workspace:reviewer (a file of the workspace)\n"),
            "{text}"
        );
    }

    #[test]
    fn an_agent_that_a_file_narrows_is_shown_with_what_counts() {
        let only = |tool: &str| AgentDefinition {
            tools: Some(Tools::Only(ToolPatterns {
                patterns: words(&[tool]),
            })),
            models: words(&["m"]),
            ..AgentDefinition::default()
        };
        let agent = Agent {
            name: "reviewer".to_owned(),
            definition: Some(only("github__*")),
            narrowed: Some(only("github__read")),
            ..Agent::default()
        };
        let said = "  a confirmed file of the workspace narrows it; what counts here:\n    tools      github__read";
        assert!(shown(&agent).ends_with(said), "{}", shown(&agent));
    }

    #[test]
    fn no_tool_is_not_every_tool() {
        let none = Tools::Only(ToolPatterns::default());
        assert_eq!(tools(Some(&none)), "none");
    }
}
