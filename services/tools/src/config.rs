//! The settings of the tools service.

mod capabilities;
mod limits;
mod shell;
mod web_search;

pub use capabilities::{Capabilities, CapabilityConfig};
pub use limits::Limits;
pub use shell::ShellConfig;
pub use web_search::WebSearchConfig;

use crate::confine::Confine;
use crate::error::Fault;
use crate::files::{OUTPUT, check_show};
use crate::mcp::{SEPARATOR, Server};
use crate::registry::is_name;
use crate::schema::Schema;
use crate::tool::{Effect, OUTPUT_LIMIT, TIME_LIMIT};
use crate::web_search::WEB_SEARCH;
use crate::workspace_files::check_paths;
use cairn_agents::is_name as is_agent_name;
use cairn_agents::resolve::OF_WORKSPACE;
use cairn_engine::decide::STATE_TOOLS;
use cairn_engine::level::LEVEL;
use cairn_engine::limits::MAX_RESULT;
use cairn_engine::rules::{Answer, NamePattern, Rule, Rules, SHELL_TOOL};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The tools that there are in any case.
const FILE_TOOLS: [&str; 5] = [
    "edit_file",
    "list_files",
    "read_file",
    "search_files",
    "write_file",
];
/// Those of them that write.
const WRITERS: [&str; 2] = ["edit_file", "write_file"];
/// The value of their calls that rules may name.
const PATH: &str = "path";
/// Tools that a model is offered unless the settings say otherwise.
pub const OFFERED: u32 = 40;
/// Most tools that a model can be offered.
const MOST_OFFERED: u32 = 1000;
/// Bytes of a program's output that its result may have.
const OUTPUT_BYTES: RangeInclusive<usize> = 256..=MAX_RESULT;
/// Longest time limit that can be set.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Folders of the workspace that have agents, unless the settings name others.
const AGENT_PATHS: [&str; 5] = [
    ".cairn/agents",
    ".claude/agents",
    ".opencode/agents",
    ".opencode/agent",
    ".github/agents",
];
/// Folders of the workspace that have skills, unless the settings name others.
const SKILL_PATHS: [&str; 3] = [".agents/skills", ".cairn/skills", ".claude/skills"];
/// Environment variables that are set for a command and cannot be asked for.
const OWN_VARIABLES: [&str; 1] = ["CAIRN_CALL_KEY"];

/// Where file tools write, besides the output folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// In the workspace, and each call waits for a person. Where no person can be asked, only in the output
    /// folder.
    #[default]
    Ask,
    /// In the workspace.
    Allow,
    /// Nowhere else.
    Out,
}

impl Write {
    /// The answer to a write that no rule matches.
    pub(crate) fn answer(self) -> Answer {
        match self {
            Self::Ask => Answer::Ask,
            Self::Allow | Self::Out => Answer::Allow,
        }
    }

    /// The rules that go with it: a tool has one answer, and the output folder needs none.
    fn rules(self) -> impl Iterator<Item = Rule> {
        let of = |name: &str| Rule {
            tool: name.to_owned(),
            when: BTreeMap::from([(PATH.to_owned(), format!("{OUTPUT}/**"))]),
            agent: None,
            answer: Answer::Allow,
        };
        let names = (self == Self::Ask).then_some(WRITERS);
        names.into_iter().flatten().map(of)
    }
}

/// The settings of the tools service. Only what [`Config::validate`] accepts is built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The folder that file tools read and commands run in. All replicas share it.
    pub workspace: PathBuf,
    /// What file tools show of the workspace although it is hidden, ignored by git or called
    /// `cairn.toml`: patterns as in a `.gitignore`.
    pub show: Vec<String>,
    /// Files and folders that file tools never show, whatever `show` says: the settings in use, the
    /// store and the tokens beside it. A last name that begins with `*` stands for every name in its
    /// folder that ends with the rest, also of files that appear later.
    pub private: Vec<PathBuf>,
    /// The folder for results, shown to tools as `cairn-out/`. Made when it is first written to.
    pub output: PathBuf,
    /// Whether file tools write in the workspace, too.
    pub write: Write,
    /// Names of the tools that may be called, or patterns; without a list, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Names of tools that may not be called, or patterns; also if they are allowed.
    pub deny: Vec<String>,
    /// Names of tools of which each call waits for a person's approval, or patterns.
    pub ask: Vec<String>,
    /// Who decides about calls; see [`cairn_engine::rules`].
    pub rules: Vec<Rule>,
    /// A model is offered at most so many tools, and finds the rest by `search_tools`.
    pub offered: u32,
    /// How many tools processes may run at a time. More than one have no server that keeps state.
    pub replicas: u32,
    /// Bounds of what one call may use up.
    pub limits: Limits,
    /// Tools that are programs.
    pub commands: Vec<CommandConfig>,
    /// Files of the workspace define agents, skills and instructions, once a person confirmed them. Otherwise
    /// none of them is read.
    pub agents_enabled: bool,
    /// Folders of the workspace that have agents as files. Of two agents with one name the first counts.
    pub agent_paths: Vec<String>,
    /// Folders of the workspace that have skills, each in a folder of its name. Of two the first counts.
    pub skill_paths: Vec<String>,
    /// `shell_exec`, and what confined programs may do.
    pub shell: ShellConfig,
    /// The provider that `web_search` asks. Without one there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearchConfig>,
    /// The tools that each capability takes.
    pub capabilities: Capabilities,
    /// The store, the tokens beside it and what else decides about calls. No program that can reach one of these is
    /// confined: it could answer for a person.
    #[serde(skip)]
    pub store_paths: Vec<PathBuf>,
    /// Servers of the Model Context Protocol by their names.
    #[serde(skip)]
    pub servers: BTreeMap<String, Server>,
    /// There may be servers besides, which are left out for now: lists may name their tools.
    #[serde(skip)]
    pub has_further_servers: bool,
    /// Every call is let through, however late it is: for tests of what the gate holds off.
    #[cfg(debug_assertions)]
    #[serde(skip)]
    pub leaves_gate_open: bool,
    /// The level that this process reports, in place of its release's: for tests of older and newer processes.
    #[cfg(debug_assertions)]
    #[serde(skip)]
    pub level: u32,
}

impl Config {
    /// How much this process can read; see [`LEVEL`].
    pub(crate) fn level(&self) -> u32 {
        #[cfg(debug_assertions)]
        return self.level;
        #[cfg(not(debug_assertions))]
        LEVEL
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workspace: PathBuf::from("."),
            show: Vec::new(),
            private: Vec::new(),
            output: PathBuf::from(OUTPUT),
            write: Write::default(),
            allow: None,
            deny: Vec::new(),
            ask: Vec::new(),
            rules: Vec::new(),
            offered: OFFERED,
            replicas: 1,
            limits: Limits::default(),
            commands: Vec::new(),
            agents_enabled: true,
            agent_paths: AGENT_PATHS.map(str::to_owned).to_vec(),
            skill_paths: SKILL_PATHS.map(str::to_owned).to_vec(),
            // Whoever builds the service decides whether models get a shell.
            shell: ShellConfig {
                enabled: false,
                ..ShellConfig::default()
            },
            web_search: None,
            capabilities: Capabilities::default(),
            store_paths: Vec::new(),
            servers: BTreeMap::new(),
            has_further_servers: false,
            #[cfg(debug_assertions)]
            leaves_gate_open: false,
            #[cfg(debug_assertions)]
            level: LEVEL,
        }
    }
}

/// A tool that is a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// As the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Program and arguments, handed over as they are: there is no shell.
    pub argv: Vec<String>,
    /// What a second run may do; effectful unless the operator knows better.
    #[serde(default)]
    pub effect: Effect,
    /// JSON Schema of the arguments, which the program reads from standard input.
    #[serde(default = "any_object")]
    pub parameters: Value,
    /// The program and its children are killed after this time, in milliseconds.
    #[serde(default = "default_time_ms")]
    pub time_limit_ms: u64,
    /// Bytes of standard output that are the result.
    #[serde(default = "default_output_bytes")]
    pub output_bytes: usize,
    /// Environment variables that are passed on, by name. Besides these there is only `PATH` and
    /// `CAIRN_CALL_KEY`, and folders for temporary files: no `HOME` either, as that is where credentials lie.
    #[serde(default)]
    pub env: Vec<String>,
    /// Whether it is confined to the workspace.
    #[serde(default)]
    pub confine: Confine,
}

impl Config {
    /// # Errors
    /// Every fault that can be seen without touching the system.
    pub fn validate(&self) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        self.check_folders(&mut faults);
        if !(1..=MOST_OFFERED).contains(&self.offered) {
            let (problem, allowed) = (
                format!("is {}", self.offered),
                format!("1 to {MOST_OFFERED}"),
            );
            faults.push(Fault::new("offered", problem, allowed));
        }
        self.limits.validate(&mut faults);
        self.shell.validate(&mut faults);
        self.capabilities.validate(&mut faults);
        if let Some(search) = &self.web_search {
            search.validate(&mut faults);
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let problem = rule.check().err();
            faults.extend(problem.map(|(field, problem)| rule_fault(index, &field, problem)));
            faults.extend(agent_fault(index, rule));
        }
        // The owner of a session answers calls of its own tools itself.
        let of_owner = STATE_TOOLS.iter().map(|tool| tool.name);
        let mut names: BTreeSet<&str> = self.built_in().chain(of_owner).collect();
        for (index, command) in self.commands.iter().enumerate() {
            command.validate(&format!("commands[{index}]"), &mut faults);
            if !names.insert(&command.name) {
                faults.push(Fault::new(
                    format!("commands[{index}].name"),
                    format!("'{}' is taken by another tool", command.name),
                    "a name of its own",
                ));
            }
        }
        if self.replicas == 0 {
            faults.push(Fault::new("replicas", "is 0", "1 or more"));
        }
        faults.extend(self.check_replicas());
        for (name, server) in &self.servers {
            let at = format!("servers.{}", name.escape_debug());
            server.config.validate(&at, name, &mut faults);
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }
}

impl Config {
    /// What is wrong with the lists of names if there are no tools but the file tools and programs.
    pub fn check_names(&self) -> Vec<Fault> {
        let programs = self.commands.iter().map(|command| command.name.as_str());
        let mut known: Vec<&str> = programs.collect();
        for name in self.built_in() {
            known.push(name);
        }
        known.sort_unstable();
        self.check_lists(&known)
    }

    /// The names of the tools that are part of Cairn.
    fn built_in(&self) -> impl Iterator<Item = &'static str> + use<> {
        let search = self.web_search.as_ref().map(|_| WEB_SEARCH);
        FILE_TOOLS.into_iter().chain([SHELL_TOOL]).chain(search)
    }

    fn check_folders(&self, faults: &mut Vec<Fault>) {
        for (field, folder) in [("workspace", &self.workspace), ("output", &self.output)] {
            if folder.as_os_str().is_empty() {
                faults.push(Fault::new(field, "is missing", "a folder"));
            }
        }
        faults.extend(check_show(&self.show));
        faults.extend(check_paths("agent_paths", &self.agent_paths));
        faults.extend(check_paths("skill_paths", &self.skill_paths));
    }

    /// The servers that cannot be used where several tools processes run.
    fn check_replicas(&self) -> Vec<Fault> {
        let stateful = self.servers.iter();
        let stateful = stateful.filter(|(_, it)| it.config.stateful && self.replicas != 1);
        let fault = |(name, _)| {
            let problem =
                "is set, and with several tools processes each would have a state of its own";
            let allowed = "tools.replicas = 1, or a server without state";
            Fault::new(format!("servers.{name}.stateful"), problem, allowed)
        };
        stateful.map(fault).collect()
    }

    /// The rules, those that the lists are short for, and those of the setting for writes. The strictest that
    /// matches a call holds, so the operator's own rules are never loosened.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub(crate) fn rules(&self) -> Result<Rules, Fault> {
        let listed = |answer: Answer| {
            move |name: &String| Rule {
                tool: name.clone(),
                when: BTreeMap::new(),
                agent: None,
                answer,
            }
        };
        let denied = self.deny.iter().map(listed(Answer::Deny));
        let asked = self.ask.iter().map(listed(Answer::Ask));
        let rules = self.rules.iter().cloned().chain(denied).chain(asked);
        let rules = rules.chain(self.write.rules());
        Rules::new(rules.collect())
            .map_err(|(index, field, problem)| rule_fault(index, &field, problem))
    }

    /// The patterns of the allow-list, if there is one.
    ///
    /// # Errors
    /// One that is none.
    pub(crate) fn allowed(&self) -> Result<Option<Vec<NamePattern>>, Fault> {
        let pattern =
            |name: &String| NamePattern::new(name).map_err(|problem| list_fault("allow", problem));
        let allow = self.allow.as_ref();
        allow
            .map(|names| names.iter().map(pattern).collect())
            .transpose()
    }

    /// A misspelt name would allow, deny or ask for nothing, in silence. The tools of servers are not known
    /// before these list them.
    pub(crate) fn check_lists(&self, known: &[&str]) -> Vec<Fault> {
        let mut faults = Vec::new();
        let names_nothing = |name: &str| format!("names '{name}', which is no tool");
        let lists = [
            ("allow", self.allow.as_deref().unwrap_or_default()),
            ("deny", &self.deny),
            ("ask", &self.ask),
        ];
        for (field, names) in lists {
            for name in names {
                let may_be_of_server = match name.split_once(SEPARATOR) {
                    _ if self.has_further_servers => is_pattern(name) || name.contains(SEPARATOR),
                    Some((server, _)) => self.servers.contains_key(server) || is_pattern(server),
                    None => is_pattern(name) && !self.servers.is_empty(),
                };
                match NamePattern::new(name) {
                    Err(problem) => faults.push(list_fault(field, problem)),
                    Ok(pattern) if known.iter().any(|name| pattern.is_match(name)) => {}
                    Ok(_) if may_be_of_server => {}
                    Ok(_) => faults.push(Fault::new(field, names_nothing(name), known.join(", "))),
                }
            }
        }
        for (index, rule) in self.rules.iter().enumerate() {
            // Rules for servers may be there before the servers are.
            let is_open = is_pattern(&rule.tool) || rule.tool.contains(SEPARATOR);
            if !is_open && !known.contains(&rule.tool.as_str()) {
                let field = format!("rules[{index}].tool");
                faults.push(Fault::new(
                    field,
                    names_nothing(&rule.tool),
                    known.join(", "),
                ));
            }
            let is_file_tool = FILE_TOOLS.contains(&rule.tool.as_str());
            for name in rule
                .when
                .keys()
                .filter(|name| is_file_tool && *name != PATH)
            {
                let field = format!("rules[{index}].when.{name}");
                let problem = format!("is no value of a call of '{}'", rule.tool);
                faults.push(Fault::new(field, problem, PATH));
            }
        }
        faults
    }
}

impl CommandConfig {
    fn validate(&self, at: &str, faults: &mut Vec<Fault>) {
        let mut fault = |field: &str, problem: String, allowed: &str| {
            faults.push(Fault::new(format!("{at}.{field}"), problem, allowed))
        };
        if !is_name(&self.name) {
            fault(
                "name",
                format!("is '{}'", self.name),
                "1 to 64 letters, digits, '_' and '-'",
            );
        }
        if self.description.trim().is_empty() {
            let allowed = "a text by which the model chooses";
            fault("description", "is missing".to_owned(), allowed);
        }
        let program = "the name of a program and its arguments, without NUL characters";
        match self.argv.first() {
            None => fault("argv", "is empty".to_owned(), program),
            Some(name) if name.is_empty() => {
                fault("argv", "names no program".to_owned(), program);
            }
            Some(_) => {}
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            fault("argv", "has a NUL character".to_owned(), program);
        }
        if let Err(problem) = Schema::compile(&self.parameters) {
            let allowed = "a JSON Schema of an object, with \"type\": \"object\"";
            fault("parameters", format!("cannot be used: {problem}"), allowed);
        }
        if self.time_limit_ms == 0 || self.time_limit_ms > millis(LONGEST) {
            let allowed = format!("1 to {}", millis(LONGEST));
            fault(
                "time_limit_ms",
                format!("is {}", self.time_limit_ms),
                &allowed,
            );
        }
        if !OUTPUT_BYTES.contains(&self.output_bytes) {
            fault(
                "output_bytes",
                format!("is {}", self.output_bytes),
                &format!("{} to {}", OUTPUT_BYTES.start(), OUTPUT_BYTES.end()),
            );
        }
        check_env(&format!("{at}.env"), &self.env, faults);
    }
}

/// Adds the faults of names of variables that are passed on.
fn check_env(at: &str, names: &[String], faults: &mut Vec<Fault>) {
    for name in names {
        if OWN_VARIABLES.contains(&name.as_str()) {
            let problem = format!("names '{name}', which is always set");
            faults.push(Fault::new(at, problem, "other names"));
        } else if name.is_empty() || name.contains(['=', '\0']) {
            let problem = format!("names '{}'", name.escape_debug());
            let allowed = "names of variables, without = and NUL characters";
            faults.push(Fault::new(at, problem, allowed));
        }
    }
}

/// Whether it is a pattern rather than a name.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

fn list_fault(field: &str, problem: String) -> Fault {
    Fault::new(
        field,
        problem,
        "names of tools, or patterns such as github__*",
    )
}

/// A rule for an agent that no agent can be would hold for nothing, unseen.
fn agent_fault(index: usize, rule: &Rule) -> Option<Fault> {
    let agent = rule.agent.as_deref()?;
    if is_agent_name(agent.strip_prefix(OF_WORKSPACE).unwrap_or(agent)) {
        return None;
    }
    let problem = format!(
        "is \"{}\", which is no name of an agent",
        agent.escape_debug()
    );
    let allowed = "the name of an agent, such as reviewer, workspace:reviewer or default";
    Some(Fault::new(
        format!("rules[{index}].agent"),
        problem,
        allowed,
    ))
}

fn rule_fault(index: usize, field: &str, problem: String) -> Fault {
    let allowed = match field {
        "tool" => "a pattern of names, such as github__*",
        _ => "a pattern of values, such as docs/**",
    };
    Fault::new(format!("rules[{index}].{field}"), problem, allowed)
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn default_time_ms() -> u64 {
    millis(TIME_LIMIT)
}

fn default_output_bytes() -> usize {
    OUTPUT_LIMIT
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
