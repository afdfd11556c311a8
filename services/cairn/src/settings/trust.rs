//! Which settings file counts, and how much of it.
//!
//! A file that the operator names counts whole. A `cairn.toml` that is merely found may have come with
//! the folder, such as a repository that was cloned. Until a person confirms it, only settings that
//! tighten count; `tightens` lists them. Every other one could start a program, send keys or texts
//! elsewhere, show or write files, spend more, or answer for a person. The prompts beside it do not count
//! either. What a person confirms is the file with the prompts that lay beside it then.

mod effects;
mod servers;

pub use servers::server_lines;

use super::prompts::{Beside, DEFAULT_FOLDER, Links, PromptFiles};
use super::{RunSettings, Settings};
use crate::cli::Global;
use crate::error::CliError;
use cairn_boot::{Document, Environment, Layers, Loaded, Trust, TrustError};
use cairn_rpc::text::escape;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The file that counts if it is there.
const DEFAULT_FILE: &str = "cairn.toml";
/// Short for `--config`.
pub(super) const CONFIG_VARIABLE: &str = "CAIRN_CONFIG";
/// The setting `tools.trust`: read without the settings, which it decides about.
const TRUST_VARIABLE: &str = "CAIRN_TOOLS__TRUST";
/// Sections of which each part is a matter of its own.
const IN_PARTS: [&str; 2] = ["tools", "mcp"];

/// The settings file of a command.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// There is none.
    Absent,
    /// The operator named it.
    Named,
    /// It was found, and is the operator's, with the prompts beside it.
    Whole(Document, PromptFiles),
    /// It was found, and its syntax has faults.
    Faulty(String),
    /// It was found, and nobody has confirmed it.
    Limited(Document, Unconfirmed),
}

/// A file that was not confirmed.
#[derive(Debug)]
pub struct Unconfirmed {
    /// Of the file's content, and of the prompts beside it.
    pub digest: String,
    /// The settings without effect, by their paths. Values may be secrets.
    pub withheld: Vec<(String, Value)>,
    /// A person was asked about this content, and refused.
    pub is_refused: bool,
    whole: Document,
    prompts: PromptFiles,
}

impl Source {
    /// The settings file: the one that is named, or the one of the current folder.
    ///
    /// # Errors
    /// The file of the current folder, or the trust file, cannot be read.
    pub fn find(global: &Global, environment: &Environment) -> Result<Self, CliError> {
        if let Some(path) = named(global, environment) {
            let content = Content::Named;
            return Ok(Self { path, content });
        }
        let path = PathBuf::from(DEFAULT_FILE);
        let content = match read(&path)? {
            None => Content::Absent,
            Some(text) => found(&path, text, trust_file(environment).as_ref())?,
        };
        Ok(Self { path, content })
    }

    /// Where it is, also if it is not there.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What has no effect, and what holds, if it was not confirmed.
    pub fn unconfirmed(&self) -> Option<&Unconfirmed> {
        match &self.content {
            Content::Limited(_, unconfirmed) => Some(unconfirmed),
            _ => None,
        }
    }

    /// Whether the file can be used, as if it was confirmed.
    ///
    /// # Errors
    /// All faults of its settings.
    pub fn check_whole(&self, environment: &Environment) -> Result<Loaded<Settings>, CliError> {
        let path = self.path.clone();
        let content = match &self.content {
            Content::Absent => Content::Absent,
            Content::Named => Content::Named,
            Content::Faulty(text) => Content::Faulty(text.clone()),
            Content::Whole(whole, prompts) => Content::Whole(whole.clone(), prompts.clone()),
            Content::Limited(_, unconfirmed) => {
                Content::Whole(unconfirmed.whole.clone(), unconfirmed.prompts.clone())
            }
        };
        let source = Self { path, content };
        let loaded = super::load_from(source, &Global::default(), environment, &[])?;
        super::hooks::check_means(&loaded)?;
        Ok(loaded)
    }

    /// The same file, which a person has confirmed.
    #[must_use]
    pub fn confirmed(self) -> Self {
        let content = match self.content {
            Content::Limited(_, unconfirmed) => {
                Content::Whole(unconfirmed.whole, unconfirmed.prompts)
            }
            content => content,
        };
        Self { content, ..self }
    }

    /// The prompts that come with it. Those of a file that was found are the ones that it was confirmed with.
    pub(super) fn beside(&self) -> Beside {
        let files = match &self.content {
            Content::Named => None,
            Content::Whole(_, prompts) => Some(prompts.clone()),
            Content::Absent | Content::Faulty(_) | Content::Limited(..) => {
                Some(PromptFiles::default())
            }
        };
        let name = self.path.file_name();
        Beside {
            folder: folder_of(&self.path).to_owned(),
            is_protected: name.is_some_and(|name| name == DEFAULT_FILE),
            files,
        }
    }

    /// The layer of settings that it is.
    pub(super) fn layers(self) -> Layers {
        let layers = Layers::new();
        match self.content {
            Content::Absent => layers,
            Content::Named => layers.file(&self.path),
            Content::Whole(document, _) | Content::Limited(document, _) => {
                layers.document(document)
            }
            Content::Faulty(text) => layers.text(&self.path.display().to_string(), &text),
        }
    }
}

impl Unconfirmed {
    /// What its settings would do, for the person who is asked.
    pub fn effects(&self) -> Vec<String> {
        let mut effects = effects::effects(&self.withheld, &self.whole.to_json());
        effects.extend(self.prompts.effects());
        effects
    }

    /// Whether hooks of the file are without effect.
    pub fn has_hooks(&self) -> bool {
        let mut withheld = self.withheld.iter();
        withheld.any(|(path, value)| {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            path.split(['.', '[']).next() == Some("hooks") && !is_empty
        })
    }

    /// In one line: which sections have no effect, and how to confirm the file.
    pub fn to_line(&self, path: &Path) -> String {
        let path = path.display().to_string();
        format!(
            "{} is not confirmed, so these settings have no effect: {}; confirm it with: cairn config trust",
            escape(&path),
            self.groups().join(", ")
        )
    }

    /// The sections of its settings. They are few, so that none of them is hidden behind others.
    fn groups(&self) -> Vec<String> {
        // The file's own names may be any text.
        let known = serde_json::to_value(Settings::default()).unwrap_or_default();
        let mut groups: Vec<String> = Vec::new();
        for (path, _) in &self.withheld {
            let mut names = path.split(['.', '[']);
            let section = names.next().unwrap_or_default();
            let group = match names.next() {
                _ if known.get(section).is_none() => "unknown settings".to_owned(),
                Some(part) if IN_PARTS.contains(&section) && known[section].get(part).is_some() => {
                    format!("{section}.{part}")
                }
                _ => section.to_owned(),
            };
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let of_files = "prompts".to_owned();
        if !self.prompts.is_empty() && !groups.contains(&of_files) {
            groups.push(of_files);
        }
        groups
    }
}

/// The file that the operator names.
fn named(global: &Global, environment: &Environment) -> Option<PathBuf> {
    let variable = environment.get(CONFIG_VARIABLE);
    let variable = variable.filter(|path| !path.is_empty());
    global
        .config
        .clone()
        .or_else(|| variable.map(PathBuf::from))
}

/// The user's trust file. None without a home. Settings files are looked up before any of them is read,
/// so a file cannot name it for itself.
pub fn trust_file(environment: &Environment) -> Option<Trust> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let named = variable(TRUST_VARIABLE).filter(|path| !path.is_empty());
    let path = named.map(PathBuf::from);
    path.or_else(|| Trust::default_path(variable))
        .map(Trust::at)
}

/// The text of a settings file; None without one.
fn read(path: &Path) -> Result<Option<String>, CliError> {
    super::servers::read(path).map_err(|error| {
        let path = path.display();
        CliError::usage(format!("the settings file {path} cannot be read: {error}"))
    })
}

/// The folder of a settings file.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The prompts beside a file that was found, as it has their folder.
fn prompts_beside(path: &Path, whole: &Document) -> PromptFiles {
    let settings = whole.to_json();
    let folder = settings["prompts"]["folder"].as_str();
    let folder = folder_of(path).join(folder.unwrap_or(DEFAULT_FOLDER));
    PromptFiles::read(&folder, Links::Refuse)
}

/// How much of a file counts that nobody named.
fn found(path: &Path, text: String, trust: Option<&Trust>) -> Result<Content, CliError> {
    let name = path.display().to_string();
    let parsed = (Document::parse(&name, &text), Document::parse(&name, &text));
    let (Ok(whole), Ok(mut limited)) = parsed else {
        return Ok(Content::Faulty(text));
    };
    let withheld = withheld(&mut limited);
    let prompts = prompts_beside(path, &whole);
    let digest = prompts.digest_with(&text);
    let is = |state: fn(&Trust, &Path, &str) -> Result<bool, TrustError>| match trust {
        Some(trust) => state(trust, path, &digest)
            .map_err(|error| CliError::chain(&error).code(crate::error::USAGE)),
        None => Ok(false),
    };
    if (withheld.is_empty() && prompts.is_empty()) || is(Trust::is_confirmed)? {
        return Ok(Content::Whole(whole, prompts));
    }
    let unconfirmed = Unconfirmed {
        is_refused: is(Trust::is_refused)?,
        digest,
        withheld,
        whole,
        prompts,
    };
    Ok(Content::Limited(limited, unconfirmed))
}

/// A file that a person may confirm.
#[derive(Debug)]
pub struct Candidate {
    /// The file as it is now, whether it was confirmed or not.
    pub source: Source,
    /// Of its content, and of the prompts beside it.
    pub digest: String,
    /// What its settings do that count only if it is confirmed.
    pub effects: Vec<String>,
}

/// The file at `path` as it is now.
///
/// # Errors
/// There is no such file, or it cannot be read.
pub fn candidate(path: &Path) -> Result<Candidate, CliError> {
    let Some(text) = read(path)? else {
        let message = format!("there is no settings file at {}", path.display());
        return Err(CliError::usage(message).hint("name it: cairn config trust FILE"));
    };
    let content = found(path, text.clone(), None)?;
    let digest = match &content {
        Content::Limited(_, unconfirmed) => unconfirmed.digest.clone(),
        // Nothing else has prompts beside it.
        _ => PromptFiles::default().digest_with(&text),
    };
    let path = path.to_owned();
    let source = Source { path, content };
    let effects = source.unconfirmed().map(Unconfirmed::effects);
    Ok(Candidate {
        effects: effects.unwrap_or_default(),
        source,
        digest,
    })
}

/// Keeps whether a person confirmed or refused the file at `path` with this digest.
///
/// # Errors
/// There is no place to keep it, or it cannot be written.
pub fn keep(
    path: &Path,
    digest: &str,
    is_confirmed: bool,
    environment: &Environment,
) -> Result<(), CliError> {
    let Some(trust) = trust_file(environment) else {
        let message =
            "there is no place for the trust file: neither XDG_STATE_HOME nor HOME is set";
        return Err(CliError::usage(message).hint("name the settings file: --config FILE"));
    };
    let kept = match is_confirmed {
        true => trust.confirm(path, digest),
        false => trust.refuse(path, digest),
    };
    kept.map_err(|error| CliError::chain(&error))
}

/// Takes what has no effect out of an unconfirmed file, and returns it.
fn withheld(document: &mut Document) -> Vec<(String, Value)> {
    let whole = document.retain(tightens);
    let without: Vec<String> = whole
        .iter()
        .flat_map(|(path, value)| tools_of(path, value))
        .collect();
    // Lists may name tools that there are not without the rest of the file.
    document.retain(|path, value| {
        let is_listed = path.starts_with("tools.") && path.ends_with(']');
        let is_without = |name: &str| {
            without.iter().any(|tool| match tool.strip_suffix('*') {
                Some(server) => name.starts_with(server),
                None => name == tool,
            })
        };
        !is_listed || !value.as_str().is_some_and(is_without)
    });
    whole
}

/// The names of the tools that a setting would bring; `*` for those of a server.
fn tools_of(path: &str, value: &Value) -> Vec<String> {
    if path == "tools.commands" {
        let commands = value.as_array().into_iter().flatten();
        let names = commands.filter_map(|command| command["name"].as_str());
        return names.map(str::to_owned).collect();
    }
    if path.starts_with("tools.web_search.") {
        return vec!["web_search".to_owned()];
    }
    let server = path.strip_prefix("mcp.servers.");
    let server = server.and_then(|rest| rest.split('.').next());
    server
        .map(|name| format!("{name}__*"))
        .into_iter()
        .collect()
}

/// Whether a setting counts without confirmation: it makes Cairn do less, or ask more, or changes
/// nothing but what is logged and the speed of the offline model.
fn tightens(path: &str, value: &Value) -> bool {
    let limits = RunSettings::default();
    let at_most = |most: u32| value.as_u64().is_some_and(|value| value <= u64::from(most));
    match path {
        "log.level" | "log.format" | "model.pace" | "tools.offered" => true,
        "tools.allow" | "tools.deny" | "tools.ask" | "tools.rules" => true,
        // Without these settings there is no such limit.
        "run.max_tokens" | "run.max_cost" | "run.max_time" | "run.max_calls" => true,
        "run.max_turns" => at_most(limits.max_turns),
        "run.max_tool_turns" => at_most(limits.max_tool_turns),
        "run.max_parallel_steps" => at_most(limits.max_parallel_steps),
        "run.max_own_revisions" => at_most(limits.max_own_revisions),
        "run.review_plan" => *value == Value::Bool(true),
        "agents.enabled" => *value == Value::Bool(false),
        "tools.shell.enabled" => *value == Value::Bool(false),
        "tools.shell.network" => value == "none",
        // The default is ask.
        "workspace.write" => matches!(value.as_str(), Some("ask" | "out")),
        "model.default" => value == super::models::OFFLINE,
        // The items of these lists.
        _ if path.starts_with("tools.rules[") => {
            matches!(value["answer"].as_str(), Some("ask" | "deny"))
        }
        _ => {
            let lists = ["tools.allow[", "tools.deny[", "tools.ask["];
            lists.iter().any(|list| path.starts_with(list))
        }
    }
}

#[cfg(test)]
mod tests;
