//! `[mcp]`: servers of the Model Context Protocol, and those of a workspace's `.mcp.json`.

use cairn_boot::Environment;
use cairn_tools::mcp::{JsonServer, Server, ServerConfig, Unused, parse_servers};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file of a workspace that names servers, as editors and agents share it.
const FILE: &str = ".mcp.json";
/// Most bytes of it.
const MOST_BYTES: u64 = 1 << 20;

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
    entries: BTreeMap<String, Value>,
}

/// A server of a `.mcp.json` that there is no source for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The server, as the file names it; none for the whole file.
    pub name: Option<String>,
    /// Why.
    pub why: Unused,
}

impl OfWorkspace {
    /// Reads the file. One that cannot be used brings no server. `environment` has the values of variables.
    pub fn read(workspace: &Path, environment: &Environment) -> Self {
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
        let environment = environment.iter();
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parsed = match parse_servers(&text, &environment.collect()) {
            Ok(parsed) => parsed,
            Err(error) => return Self::unusable(file, &error.to_string()),
        };
        let mut found = Self {
            file,
            ..Self::default()
        };
        for JsonServer {
            written,
            name,
            entry,
            config,
        } in parsed
        {
            match config {
                Ok(config) => {
                    let server = Server::of_file(config, &found.file);
                    found.servers.insert(name.clone(), server);
                    found.entries.insert(name, entry);
                }
                Err(why) => found.left_out.push(LeftOut {
                    name: Some(written),
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
                why: Unused::Unusable(problem.to_owned()),
            }],
            file,
            ..Self::default()
        }
    }

    /// The settings of a server as the file has them, with variables put in where they decide what runs.
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
                (_, Unused::Disabled) => None,
                (None, Unused::Unusable(problem)) => Some(format!("{FILE} is left out: {problem}")),
                (Some(name), Unused::Unusable(problem)) => Some(format!(
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
        let environment = Environment::of([("DIR", "docs"), ("HOST", "example.com")]);
        OfWorkspace::read(folder.path(), &environment)
    }

    #[test]
    fn servers_that_cannot_be_used_are_named_with_the_reason() {
        let found = of(r#"{"mcpServers": {
            "ok": {"command": "x"},
            "off": {"command": "x", "disabled": true},
            "not on": {"command": "x", "enabled": false},
            "args": {"command": "x", "args": "y"},
            "url": {"url": "https://${NONE}/"},
            "none": {}
        }}"#);
        let names: Vec<_> = found.servers.keys().collect();
        assert_eq!(names, ["ok"]);
        let why = |name: &str| {
            let mut left_out = found.left_out.iter();
            let left_out = left_out.find(|it| it.name.as_deref() == Some(name));
            left_out.unwrap().why.clone()
        };
        assert_eq!(why("off"), Unused::Disabled);
        assert_eq!(why("not on"), Unused::Disabled);
        for (name, says) in [
            ("args", "args is no list"),
            ("url", "refers to the variable NONE, which is not set"),
            ("none", "neither command nor url"),
        ] {
            let Unused::Unusable(problem) = why(name) else {
                panic!("{name}");
            };
            assert!(problem.contains(says), "{name}: {problem}");
        }
        assert!(found.has_left_out());
    }

    #[test]
    fn servers_are_found_by_their_names_here_with_what_runs() {
        let found = of("\u{feff}{\"mcpServers\": {
            \"a\": {\"command\": \"x\", \"args\": [\"${DIR:-.}\"]},
            \"My Server\": {\"url\": \"https://${HOST}/mcp\"}
        }}");
        assert!(found.left_out.is_empty(), "{:?}", found.left_out);
        let names: Vec<_> = found.servers.keys().collect();
        assert_eq!(names, ["My_Server", "a"]);
        assert_eq!(found.entry("a").unwrap()["args"][0], "docs");
        assert_eq!(
            found.entry("My_Server").unwrap()["url"],
            "https://example.com/mcp"
        );
        assert!(found.digest("My_Server").is_some() && found.digest("My Server").is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_left_out_as_a_whole() {
        for text in ["{", "[]", r#"{"mcpServers": 1}"#] {
            let found = of(text);
            assert_eq!(found.left_out.len(), 1, "{text}");
            assert_eq!(found.left_out[0].name, None, "{text}");
        }
        let nowhere = OfWorkspace::read(Path::new("/nowhere"), &Environment::default());
        assert!(nowhere.left_out.is_empty());
    }
}
