//! `[mcp]`: servers of the Model Context Protocol, and those of a workspace's `.mcp.json`.

use cairn_tools::mcp::{Server, ServerConfig, parse_servers};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file of a workspace that names servers, as editors and agents share it.
const FILE: &str = ".mcp.json";
/// Most bytes of it.
const MOST_BYTES: u64 = 1 << 20;
/// Most servers of it.
const MOST_SERVERS: usize = 64;

/// Servers that bring tools.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct McpSettings {
    /// Servers by name.
    pub servers: BTreeMap<String, ServerConfig>,
}

impl McpSettings {
    /// The servers of the settings, which the operator chose.
    pub(super) fn of_operator(&self) -> BTreeMap<String, Server> {
        let servers = self.servers.iter();
        let servers =
            servers.map(|(name, config)| (name.clone(), Server::of_operator(config.clone())));
        servers.collect()
    }
}

/// What the `.mcp.json` of a workspace names. It may have come with the folder, so its servers wait for a
/// person.
#[derive(Debug, Default)]
pub struct OfWorkspace {
    /// The servers that can be used.
    pub(super) servers: BTreeMap<String, Server>,
    /// The others, and the file itself if it cannot be read.
    pub left_out: Vec<LeftOut>,
    /// The file, if it is there.
    pub file: PathBuf,
    entries: Map<String, Value>,
}

/// A server of a `.mcp.json` that there is no source for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The server; none for the whole file.
    pub name: Option<String>,
    /// Why.
    pub why: Why,
}

/// Why a server is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Its entry says so.
    Disabled,
    /// It cannot be used; in words.
    Unusable(String),
}

impl OfWorkspace {
    /// Reads the file. One that cannot be used brings no server.
    pub fn read(workspace: &Path) -> Self {
        // The services say what is wrong with the folder.
        let Ok(workspace) = workspace.canonicalize() else {
            return Self::default();
        };
        let file = workspace.join(FILE);
        let text = match read(&file) {
            Ok(Some(text)) => text,
            Ok(None) => return Self::default(),
            Err(error) => return Self::unusable(file, &format!("it cannot be read: {error}")),
        };
        // Each entry alone, so that it is known which one a problem is of.
        let document: Value = match parse_servers(&text).and(Ok(serde_json::from_str(&text))) {
            Ok(Ok(document)) => document,
            Ok(Err(error)) => return Self::unusable(file, &error.to_string()),
            Err(error) => return Self::unusable(file, &error.to_string()),
        };
        let entries = document["mcpServers"].as_object();
        let mut found = Self {
            entries: entries.cloned().unwrap_or_default(),
            file,
            ..Self::default()
        };
        for (name, entry) in found.entries.clone() {
            match found.usable(&name, &entry) {
                Ok(server) => _ = found.servers.insert(name, server),
                Err(why) => found.left_out.push(LeftOut {
                    name: Some(name),
                    why,
                }),
            }
        }
        found
    }

    fn unusable(file: PathBuf, problem: &str) -> Self {
        Self {
            left_out: vec![LeftOut {
                name: None,
                why: Why::Unusable(problem.to_owned()),
            }],
            file,
            ..Self::default()
        }
    }

    fn usable(&self, name: &str, entry: &Value) -> Result<Server, Why> {
        if entry["disabled"] == Value::Bool(true) {
            return Err(Why::Disabled);
        }
        if self.servers.len() == MOST_SERVERS {
            let problem = format!("there are more than {MOST_SERVERS} servers");
            return Err(Why::Unusable(problem));
        }
        if entry.is_object() && entry.get("command").is_none() && entry.get("url").is_none() {
            return Err(Why::Unusable("it has neither command nor url".to_owned()));
        }
        let alone = json!({"mcpServers": {name: entry}}).to_string();
        let parsed = parse_servers(&alone).map_err(|error| Why::Unusable(error.to_string()));
        let (mut servers, problems) = parsed?;
        match servers.remove(name) {
            Some(config) => Ok(Server::of_file(config, &self.file)),
            None => {
                // The server is named with the reason.
                let name = format!("server '{}' is not used: ", name.escape_debug());
                let problems = problems.iter();
                let problems = problems.map(|it| it.strip_prefix(&name).unwrap_or(it));
                Err(Why::Unusable(problems.collect::<Vec<_>>().join(", ")))
            }
        }
    }

    /// The settings of a server as the file has them.
    pub fn entry(&self, name: &str) -> Option<&Value> {
        self.entries.get(name)
    }

    /// The digest of a server, as its source has it.
    pub fn digest(&self, name: &str) -> Option<String> {
        let server = self.servers.get(name)?;
        Some(server.config.digest(self.file.parent()?))
    }

    /// Whether there are servers that are disabled or cannot be used for now. Lists may name their tools.
    pub(super) fn has_left_out(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// A line about each server that cannot be used, and about a file that cannot be read.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.left_out
            .iter()
            .filter_map(|it| match (&it.name, &it.why) {
                (_, Why::Disabled) => None,
                (None, Why::Unusable(problem)) => Some(format!("{FILE} is left out: {problem}")),
                (Some(name), Why::Unusable(problem)) => Some(format!(
                    "the server '{name}' of {FILE} is left out: {problem}"
                )),
            })
    }

    /// The same in the log.
    pub(super) fn log(&self) {
        for problem in self.problems() {
            tracing::info!(file = %self.file.display(), problem, "server of the workspace left out");
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    absent.contains(&error.kind())
}

/// The text of a file; None without one. Anything but a file is refused, as opening it may block.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match path.metadata() {
        Ok(known) if known.is_file() => {}
        Ok(_) => return Err(io::Error::other("it is not a file")),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut text = String::new();
    File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text)?;
    match text.len() as u64 {
        ..=MOST_BYTES => Ok(Some(text)),
        _ => Err(io::Error::other(format!(
            "it has more than {MOST_BYTES} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> OfWorkspace {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        OfWorkspace::read(folder.path())
    }

    #[test]
    fn servers_that_cannot_be_used_are_named_with_the_reason() {
        let found = of(r#"{"mcpServers": {
            "ok": {"command": "x"},
            "off": {"command": "x", "disabled": true},
            "args": {"command": "x", "args": "y"},
            "url": {"url": "https://${HOST}/"},
            "word": {"command": "x", "env": {"A": "${B:-d}"}},
            "none": {}
        }}"#);
        let names: Vec<_> = found.servers.keys().collect();
        assert_eq!(names, ["ok"]);
        let why = |name: &str| {
            let mut left_out = found.left_out.iter();
            let left_out = left_out.find(|it| it.name.as_deref() == Some(name));
            left_out.unwrap().why.clone()
        };
        assert_eq!(why("off"), Why::Disabled);
        for (name, says) in [
            ("args", "args is no list"),
            ("url", "url has a variable"),
            ("word", "no plain name of a variable"),
            ("none", "neither command nor url"),
        ] {
            let Why::Unusable(problem) = why(name) else {
                panic!("{name}");
            };
            assert!(problem.contains(says), "{name}: {problem}");
        }
        assert!(found.has_left_out());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_left_out_as_a_whole() {
        for text in ["{", "[]", r#"{"mcpServers": 1}"#] {
            let found = of(text);
            assert_eq!(found.left_out.len(), 1, "{text}");
            assert_eq!(found.left_out[0].name, None, "{text}");
        }
        assert!(OfWorkspace::read(Path::new("/nowhere")).left_out.is_empty());
    }
}
