//! From what operators stored and the files of a workspace to the definition that a run of an agent uses.
//!
//! | name | the agent |
//! |---|---|
//! | empty, `default` | no prompt, every tool, the skills and instructions of the workspace |
//! | `NAME` | the stored agent, which a file of that name narrows; without a stored one, `workspace:NAME` |
//! | `workspace:NAME` | the file alone |
//!
//! Only files that a person confirmed get here. Even so, a file gives no right: it takes tools away, lowers
//! limits, and names models that the operator has.

mod files;

pub use files::{File, FileKind, Workspace, workspace};

use crate::agent::{AgentFile, Mode};
use crate::rights::{Tools, common};
use crate::skill::{SPECIFIED_DESCRIPTION, SkillFile};
use cairn_engine::agent::{AgentCompaction, AgentDefinition, AgentLimits, SkillOffer};
use cairn_engine::command::RunLimits;
use cairn_engine::event::Budget;
use cairn_engine::rules::DEFAULT_AGENT;
use std::collections::BTreeSet;
use thiserror::Error;

/// The beginning of the name of an agent that only a file of the workspace defines.
pub const OF_WORKSPACE: &str = "workspace:";
/// The item of a list of skills that stands for all of them.
const EVERY_SKILL: &str = "*";
/// Most bytes of the descriptions of an agent's skills together: each request of its models has them.
const MOST_DESCRIBED: usize = 64 * 1024;

/// Why an agent cannot be used. The words read on from the agent's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unusable {
    /// No document and no confirmed file has the name.
    #[error("does not exist{}", listed(.known))]
    NotFound {
        /// The agents of the workspace, sorted.
        known: Vec<String>,
    },
    /// Its definition, or the file that narrows it, has `disable: true`.
    #[error("is disabled in its definition; remove the field disable there, or use another agent")]
    Disabled,
    /// Its definition, or the file that narrows it, has `mode: subagent`.
    #[error("works for other agents only (mode: subagent); use another agent")]
    OnlyForAgents,
    /// The file of that name has faults. A stored agent is not used without the file that narrows it either.
    #[error("has a file that cannot be used: {0}")]
    Faults(String),
}

fn listed(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!("; agents of the workspace: {}", known.join(", ")),
    }
}

impl Unusable {
    /// In words, for the agent of this name.
    pub fn message(&self, name: &str) -> String {
        format!("agent {} {self}", crate::fault::quoted(name))
    }
}

/// The definition of the agent that a command names.
///
/// `document` is the stored agent of that name. `workspace` is none where no file counts. `settings` are the
/// limits of a run that names none, and `has_model` says which models the operator has.
///
/// # Errors
/// See [`Unusable`].
pub fn resolve(
    name: &str,
    document: Option<&AgentFile>,
    workspace: Option<&Workspace>,
    settings: &RunLimits,
    has_model: &dyn Fn(&str) -> bool,
) -> Result<AgentDefinition, Unusable> {
    if name.is_empty() || name == DEFAULT_AGENT {
        let sources = Sources::default();
        return Ok(sources.definition(DEFAULT_AGENT, workspace, settings, has_model));
    }
    let alone = name.strip_prefix(OF_WORKSPACE);
    let sources = Sources {
        document: document.filter(|_| alone.is_none()),
        file: file(alone.unwrap_or(name), workspace)?,
    };
    if sources.all().any(|agent| agent.is_disabled) {
        return Err(Unusable::Disabled);
    }
    if sources.all().any(|agent| agent.mode == Mode::Subagent) {
        return Err(Unusable::OnlyForAgents);
    }
    let full = match (sources.document, sources.file) {
        (Some(_), _) => name.to_owned(),
        // Its own name, so that no rule for a stored agent is for it.
        (None, Some(file)) => format!("{OF_WORKSPACE}{}", file.name),
        (None, None) => return Err(not_found(workspace)),
    };
    Ok(sources.definition(&full, workspace, settings, has_model))
}

/// The agent that a file of the workspace defines.
fn file<'a>(
    name: &str,
    workspace: Option<&'a Workspace>,
) -> Result<Option<&'a AgentFile>, Unusable> {
    let Some(workspace) = workspace else {
        return Ok(None);
    };
    match workspace.faulty.get(name) {
        Some(fault) => Err(Unusable::Faults(fault.clone())),
        None => Ok(workspace.agents.get(name)),
    }
}

fn not_found(workspace: Option<&Workspace>) -> Unusable {
    let names = workspace
        .into_iter()
        .flat_map(|workspace| workspace.agents.keys());
    Unusable::NotFound {
        known: names.map(|name| format!("{OF_WORKSPACE}{name}")).collect(),
    }
}

/// Where an agent is defined; both are none for the default agent.
#[derive(Default)]
struct Sources<'a> {
    /// By the operator: it gives rights.
    document: Option<&'a AgentFile>,
    /// By a file: it takes them away.
    file: Option<&'a AgentFile>,
}

impl<'a> Sources<'a> {
    fn all(&self) -> impl Iterator<Item = &'a AgentFile> {
        [self.document, self.file].into_iter().flatten()
    }

    /// What a file cannot narrow comes from the document alone, if there is one.
    fn main(&self) -> Option<&'a AgentFile> {
        self.document.or(self.file)
    }

    fn definition(
        &self,
        name: &str,
        workspace: Option<&Workspace>,
        settings: &RunLimits,
        has_model: &dyn Fn(&str) -> bool,
    ) -> AgentDefinition {
        let main = self.main();
        let model = main.and_then(|agent| agent.model.iter().find(|model| has_model(model)));
        let compaction = main.map(|agent| agent.cairn.compaction).unwrap_or_default();
        let window = main.and_then(|agent| agent.cairn.window);
        AgentDefinition {
            name: name.to_owned(),
            prompt: main.map(|agent| agent.prompt.clone()).unwrap_or_default(),
            model: model.cloned().unwrap_or_default(),
            tools: self.tools(),
            capabilities: self.united(|agent| &agent.cairn.capabilities),
            hooks: self.united(|agent| &agent.hooks),
            denied: self.united(|agent| &agent.denied),
            asked: self.united(|agent| &agent.ask),
            limits: self.limits(settings),
            temperature_milli: main.and_then(|agent| agent.temperature_milli),
            compaction: AgentCompaction {
                at_permille: compaction.at_permille,
                keep_turns: compaction.keep_turns,
                when_full: compaction.when_full,
            },
            window,
            skills: self.skills(workspace),
            instructions: workspace
                .map(|workspace| workspace.instructions.clone())
                .unwrap_or_default(),
        }
    }

    /// The tools that all sources offer.
    fn tools(&self) -> Option<Vec<String>> {
        let lists = self.all().filter_map(|agent| match &agent.tools {
            Tools::All => None,
            Tools::Only(only) => Some(only.iter().cloned().collect::<BTreeSet<String>>()),
        });
        let both = lists.reduce(|one, other| common(&one, &other));
        both.map(|tools| tools.into_iter().collect())
    }

    /// What any source has on a list.
    fn united(&self, list: fn(&AgentFile) -> &Vec<String>) -> Vec<String> {
        let all = self.all().flat_map(|agent| list(agent).iter().cloned());
        let all: BTreeSet<String> = all.collect();
        all.into_iter().collect()
    }

    fn limits(&self, settings: &RunLimits) -> AgentLimits {
        let (document, file) = (self.document.map(limits_of), self.file.map(limits_of));
        let settings = limits_of_settings(settings);
        let (document, file) = (document.unwrap_or_default(), file.unwrap_or_default());
        AgentLimits {
            max_tool_turns: narrowed(
                document.max_tool_turns,
                file.max_tool_turns,
                settings.max_tool_turns,
            ),
            max_turns: narrowed(document.max_turns, file.max_turns, settings.max_turns),
            tokens: narrowed(document.tokens, file.tokens, settings.tokens),
            cost_nano_usd: narrowed(
                document.cost_nano_usd,
                file.cost_nano_usd,
                settings.cost_nano_usd,
            ),
            time_ms: narrowed(document.time_ms, file.time_ms, settings.time_ms),
            calls: narrowed(document.calls, file.calls, settings.calls),
        }
    }

    /// The skills that every source lists, of those that prompts list at all. Those whose descriptions are too
    /// much have none; they can be read all the same.
    fn skills(&self, workspace: Option<&Workspace>) -> Vec<SkillOffer> {
        let lists = |agent: &AgentFile, name: &str| {
            agent.skills.as_ref().is_none_or(|skills| {
                skills
                    .iter()
                    .any(|skill| skill == name || skill == EVERY_SKILL)
            })
        };
        let skills = workspace
            .into_iter()
            .flat_map(|workspace| &workspace.skills);
        let skills = skills.filter(|(name, (skill, _))| {
            skill.is_listed && self.all().all(|agent| lists(agent, name))
        });
        let mut bytes = 0;
        let offer = |(name, (skill, digest)): (&String, &(SkillFile, String))| {
            let description = listed_description(&skill.description);
            bytes += description.len();
            SkillOffer {
                name: name.clone(),
                description: match bytes <= MOST_DESCRIBED {
                    true => description,
                    false => String::new(),
                },
                digest: digest.clone(),
            }
        };
        skills.map(offer).collect()
    }
}

/// A description as prompts have it: no longer than the specification allows.
fn listed_description(text: &str) -> String {
    match text.chars().count() <= SPECIFIED_DESCRIPTION {
        true => text.to_owned(),
        false => {
            let kept = text.chars().take(SPECIFIED_DESCRIPTION - 1);
            kept.chain(['…']).collect()
        }
    }
}

/// The limit of a document, which a file lowers. Without one, the file lowers that of the settings.
fn narrowed<T: Ord>(document: Option<T>, file: Option<T>, settings: Option<T>) -> Option<T> {
    match file {
        None => document,
        Some(file) => Some(match document.or(settings) {
            None => file,
            Some(most) => most.min(file),
        }),
    }
}

fn limits_of(agent: &AgentFile) -> AgentLimits {
    let budgets = agent.cairn.budgets;
    AgentLimits {
        max_tool_turns: agent.max_tool_turns,
        max_turns: agent.max_turns,
        tokens: budgets.tokens,
        cost_nano_usd: budgets.cost_nano_usd,
        time_ms: budgets.time_ms,
        calls: budgets.calls.map(small),
    }
}

fn limits_of_settings(settings: &RunLimits) -> AgentLimits {
    // A budget of 0 is no limit.
    let budget = |budget: Budget| Some(settings.budgets[budget]).filter(|most| *most > 0);
    AgentLimits {
        max_tool_turns: Some(settings.max_tool_turns),
        max_turns: budget(Budget::Turns).map(small),
        tokens: budget(Budget::Tokens),
        cost_nano_usd: budget(Budget::Cost),
        time_ms: budget(Budget::Time),
        calls: budget(Budget::Calls).map(small),
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
