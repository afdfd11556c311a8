//! Agents: a name, a prompt, rights and limits.

mod servers;

use crate::document::{Document, Front, MAX_FILE};
use crate::fault::{AgentError, Found, Parsed, quoted, shown};
use crate::fields::{Fields, Vocabulary};
use crate::limits::{CairnFields, own};
use crate::names::{ALLOWED, is_name, of_file};
use crate::rights::{Draft, Tools};
use crate::yaml::{self, Entry, Value};
use crate::{metadata, permission, tools};
use std::collections::BTreeMap;

/// Most bytes of the description of an agent.
pub const MAX_DESCRIPTION: usize = 8 * 1024;
/// Most bytes of the name of a model.
const MAX_MODEL: usize = 256;
/// Most models of an agent.
const MAX_MODELS: usize = 16;
/// Names that stand for the configured model.
const INHERIT: [&str; 3] = ["inherit", "default", "auto"];

const VOCABULARY: Vocabulary = Vocabulary {
    whose: "an agent",
    known: &[
        "agents",
        "allowed-tools",
        "cairn",
        "description",
        "disable",
        "disable-model-invocation",
        "disallowed-tools",
        "effort",
        "hidden",
        "hooks",
        "infer",
        "max-steps",
        "max-tool-turns",
        "max-turns",
        "mcp-servers",
        "metadata",
        "mode",
        "model",
        "name",
        "permission",
        "permission-mode",
        "prompt",
        "reasoning-effort",
        "skills",
        "steps",
        "temperature",
        "tools",
        "user-invocable",
    ],
    shown: &[
        "argument-hint",
        "author",
        "color",
        "license",
        "tags",
        "target",
        "version",
    ],
    idle: &[
        "background",
        "handoffs",
        "initial-prompt",
        "isolation",
        "memory",
        "reasoning-summary",
        "text-verbosity",
        "top-p",
        "variant",
    ],
};

/// An agent as its file defines it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentFile {
    /// Its name; see [`is_name`].
    pub name: String,
    /// The field `name` if that is no name: `Custom Agent Foundry`.
    pub title: Option<String>,
    /// Its purpose, which other agents read before they give it a task. May be empty.
    pub description: String,
    /// Its part of the system prompt. May be empty.
    pub prompt: String,
    /// Its models, best first: the first available one is used. Empty for the configured one.
    pub model: Vec<String>,
    /// The tools that it is offered.
    pub tools: Tools,
    /// Patterns of tools that it is not offered, also if `tools` has them; sorted.
    pub denied: Vec<String>,
    /// Patterns of tools of which each call asks a person; sorted.
    pub ask: Vec<String>,
    /// Most turns of a run of it.
    pub max_turns: Option<u32>,
    /// Most tool turns in one turn or attempt.
    pub max_tool_turns: Option<u32>,
    /// Sampling temperature, in thousandths.
    pub temperature_milli: Option<u32>,
    /// How much its model thinks.
    pub effort: Option<Effort>,
    /// Its users: people, agents, or both.
    pub mode: Mode,
    /// It is not listed to people.
    pub is_hidden: bool,
    /// It is not used at all.
    pub is_disabled: bool,
    /// Skills that its prompt lists; none for all.
    pub skills: Option<Vec<String>>,
    /// Agents that it may give tasks to; none for all.
    pub agents: Option<Vec<String>>,
    /// Names of servers of tools that it needs.
    pub mcp_servers: Vec<String>,
    /// Names of hooks that listen to its runs.
    pub hooks: Vec<String>,
    /// Notes for other programs. Values that are no text are as JSON.
    pub metadata: BTreeMap<String, String>,
    /// Fields of Cairn alone.
    pub cairn: CairnFields,
}

/// The users of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// People.
    Primary,
    /// Agents, by giving it tasks.
    Subagent,
    /// Both.
    #[default]
    All,
}

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Effort {
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

const MODES: [(&str, Mode); 3] = [
    ("primary", Mode::Primary),
    ("subagent", Mode::Subagent),
    ("all", Mode::All),
];
const EFFORTS: [(&str, Effort); 6] = [
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::XHigh),
    ("max", Effort::Max),
];

impl Mode {
    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }
}

impl Effort {
    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

impl AgentFile {
    /// An agent that has a name and nothing else.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

/// Reads the file of an agent.
///
/// `path` gives its name, unless a field does, and is shown in messages; an empty one gives none. Text without
/// front matter is an agent with a prompt and every tool.
///
/// # Errors
/// Every fault of the file, each with its line, its field, and the allowed values.
pub fn parse(path: &str, text: &str) -> Result<Parsed<AgentFile>, AgentError> {
    let one = |fault| AgentError::one(path, fault);
    let document = Document::of(text, MAX_FILE).map_err(one)?;
    let (entries, warnings) = match &document.front {
        None => (Vec::new(), Vec::new()),
        Some(Front { source, before }) => {
            yaml::read(source, *before, &VOCABULARY.names()).map_err(one)?
        }
    };
    let mut fields = Fields::new("", entries);
    fields.found.warnings.extend(warnings);
    let (name, title) = name(&mut fields, path);
    let (prompt, rights) = (prompt(&mut fields, document.body), rights(&mut fields));
    let tools = rights.tools();
    let agent = AgentFile {
        name,
        title,
        description: description(&mut fields),
        prompt,
        model: models(&mut fields),
        tools,
        denied: rights.denied.into_iter().collect(),
        ask: rights.ask.into_iter().collect(),
        max_turns: fields.small(&["maxturns", "steps", "maxsteps"], 1..=100_000),
        max_tool_turns: fields.small(&["maxtoolturns"], 0..=1000),
        temperature_milli: temperature(&mut fields),
        effort: fields.one_of(&["effort", "reasoningeffort"], &EFFORTS),
        is_disabled: fields.truth(&["disable", "disabled"]).unwrap_or_default(),
        skills: fields.names(&["skills"]),
        agents: rights.agents.map(|agents| agents.into_iter().collect()),
        mcp_servers: servers::servers(&mut fields),
        hooks: servers::hooks(&mut fields),
        metadata: metadata::read(&mut fields),
        cairn: own(&mut fields),
        ..audience(&mut fields)
    };
    fields.finish(&VOCABULARY).finish(path, agent)
}

/// The name, and the title if the field has one instead of a name.
fn name(fields: &mut Fields, path: &str) -> (String, Option<String>) {
    let file = of_file(path);
    let entry = fields.take(&["name"]);
    let said = match entry.as_ref().map(|entry| &entry.value) {
        None | Some(Value::Nothing) => None,
        Some(Value::Text(text)) if is_name(text.trim()) => return (text.trim().to_owned(), None),
        Some(Value::Text(text)) => Some(text.trim().to_owned()),
        Some(other) => {
            let line = entry.as_ref().map_or(0, |entry| entry.line);
            let allowed = "text, in quotes if it is a number";
            fields.found.error(line, "name", shown(other), allowed);
            None
        }
    };
    let line = entry.as_ref().map_or(0, |entry| entry.line);
    if !is_name(file) {
        let problem = match &said {
            None if path.is_empty() => "is missing".to_owned(),
            Some(said) if path.is_empty() => format!("is {}, which is no name", quoted(said)),
            Some(said) => format!(
                "is {}, which is no name, and neither is that of the file",
                quoted(said)
            ),
            None => format!("is missing, and the name of the file is {}", quoted(file)),
        };
        fields.found.error(line, "name", problem, ALLOWED);
    } else if let Some(said) = &said {
        let problem = format!(
            "is {}, so the agent has the name of its file, {file}",
            quoted(said)
        );
        fields.found.warn(line, "name", problem);
    }
    (file.to_owned(), said.filter(|said| !said.is_empty()))
}

fn description(fields: &mut Fields) -> String {
    let text = fields.text(&["description"], MAX_DESCRIPTION);
    text.unwrap_or_default().trim().to_owned()
}

/// The text below the front matter, or `prompt`.
fn prompt(fields: &mut Fields, body: String) -> String {
    let Some(entry) = fields.take(&["prompt"]) else {
        if body.is_empty() {
            let problem =
                "has no text below the front matter: the agent has no instructions of its own";
            fields.found.warn(0, "", problem);
        }
        return body;
    };
    let found = &mut fields.found;
    match entry.value {
        Value::Text(text) if text.trim_start().starts_with("{file:") => {
            let allowed = "the text itself, here or below the front matter";
            found.error(
                entry.line,
                "prompt",
                format!("is {}", quoted(&text)),
                allowed,
            );
        }
        Value::Text(text) if body.is_empty() => return text.trim().to_owned(),
        Value::Text(_) => {
            let problem = "has no effect: the text below the front matter is the prompt";
            found.warn(entry.line, "prompt", problem);
        }
        Value::Nothing => {}
        other => found.error(entry.line, "prompt", shown(&other), "text"),
    }
    body
}

/// Reads the fields about rights.
fn rights(fields: &mut Fields) -> Draft {
    let mut draft = Draft::default();
    // Commands of Claude Code write `tools` so. A list without effect would offer every tool.
    for names in [&["tools"], &["allowedtools"]] {
        if let Some(entry) = fields.take(names) {
            tools::offered(&entry, &mut draft, &mut fields.found);
        }
    }
    if let Some(entry) = fields.take(&["disallowedtools"]) {
        tools::denied(&entry, &mut draft, &mut fields.found);
    }
    if let Some(entry) = fields.take(&["permission", "permissions"]) {
        permission::read(&entry, &mut draft, &mut fields.found);
    }
    if let Some(entry) = fields.take(&["permissionmode"]) {
        permission_mode(&entry, &mut draft, &mut fields.found);
    }
    // `agents: *` is every agent.
    let agents = fields
        .names(&["agents"])
        .filter(|agents| !agents.iter().any(|it| it == "*"));
    if let Some(agents) = agents {
        draft.restrict_agents(agents.into_iter().collect());
    }
    draft
}

/// Modes of Claude Code. A file may make calls ask or refuse them; it never lets them pass.
fn permission_mode(entry: &Entry, draft: &mut Draft, found: &mut Found) {
    const ALLOWED: &str = "default, plan";
    let mode = match &entry.value {
        Value::Nothing => return,
        Value::Text(text) => text.to_ascii_lowercase(),
        other => return found.error(entry.line, &entry.name, shown(other), ALLOWED),
    };
    match mode.as_str() {
        "default" | "manual" => {}
        "plan" => {
            let changing = ["edit_file", "shell_exec", "write_file"];
            draft.denied.extend(changing.map(str::to_owned));
        }
        "acceptedits" | "auto" | "bypasspermissions" | "dontask" => {
            let problem =
                "has no effect: only the operator's rules let calls pass without a question";
            found.warn(entry.line, &entry.name, problem);
        }
        _ => found.error(entry.line, &entry.name, shown(&entry.value), ALLOWED),
    }
}

/// One model, or a list of which the first one that there is counts.
fn models(fields: &mut Fields) -> Vec<String> {
    const ALLOWED: &str = "the name of a model, or a list of such names";
    let Some(entry) = fields.take(&["model"]) else {
        return Vec::new();
    };
    let found = &mut fields.found;
    let mut models: Vec<String> = Vec::new();
    let mut add = |line, value: &Value| match value {
        Value::Text(text) if (1..=MAX_MODEL).contains(&text.trim().len()) => {
            let model = text.trim();
            if !models.iter().any(|other| other == model) {
                models.push(model.to_owned());
            }
        }
        other => found.error(line, &entry.name, shown(other), ALLOWED),
    };
    match &entry.value {
        Value::Nothing => {}
        Value::List(nodes) => nodes.iter().for_each(|node| add(node.line, &node.value)),
        value => add(entry.line, value),
    }
    // The configured model is always available, so no model after it is ever used.
    let is_any = |model: &String| INHERIT.iter().any(|it| it.eq_ignore_ascii_case(model));
    let known = models.iter().position(is_any).unwrap_or(models.len());
    models.truncate(known);
    if known > MAX_MODELS {
        let problem = format!("has {known} models");
        found.error(
            entry.line,
            "model",
            problem,
            format!("at most {MAX_MODELS}"),
        );
    }
    models
}

fn temperature(fields: &mut Fields) -> Option<u32> {
    let milli = fields.decimal(&["temperature"], 3, 0..=2000, "a number from 0 to 2")?;
    u32::try_from(milli).ok()
}

/// Mode and visibility, in the fields of all dialects.
fn audience(fields: &mut Fields) -> AgentFile {
    let mode = fields.one_of(&["mode"], &MODES);
    let is_hidden = fields.truth(&["hidden"]).unwrap_or_default();
    // `infer` is the older name, with the other sense.
    let infer = fields.truth(&["infer"]).unwrap_or(true);
    let is_for_agents = !fields.truth(&["disablemodelinvocation"]).unwrap_or(!infer);
    let is_for_people = fields
        .truth(&["userinvocable", "userinvokable"])
        .unwrap_or(true);
    let (by_fields, is_for_none) = match (is_for_people, is_for_agents) {
        (true, true) => (Mode::All, false),
        (true, false) => (Mode::Primary, false),
        (false, true) => (Mode::Subagent, false),
        (false, false) => (Mode::All, true),
    };
    AgentFile {
        mode: mode.unwrap_or(by_fields),
        is_hidden: is_hidden || is_for_none,
        ..AgentFile::default()
    }
}
