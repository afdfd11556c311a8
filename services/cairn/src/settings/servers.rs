//! `[mcp]`: servers of the Model Context Protocol, and those of a workspace's `.mcp.json`.

use cairn_tools::mcp::{Server, ServerConfig, parse_servers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

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

/// The servers that the workspace's file names. They may have come with the folder, so they wait for a
/// person. A file that cannot be used brings none, and the log says why.
pub(super) fn of_workspace(workspace: &Path) -> BTreeMap<String, Server> {
    let workspace = workspace.canonicalize();
    let path = match workspace {
        Ok(workspace) => workspace.join(FILE),
        // The services say what is wrong with the folder.
        Err(_) => return BTreeMap::new(),
    };
    let shown = path.display();
    let text = match read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            tracing::warn!(file = %shown, %error, "servers of the workspace cannot be read");
            return BTreeMap::new();
        }
    };
    match parse_servers(&text) {
        Ok((servers, problems)) => {
            for problem in problems {
                tracing::warn!(file = %shown, problem, "server of the workspace left out");
            }
            let servers = servers.into_iter();
            servers
                .map(|(name, config)| (name, Server::of_file(config, &path)))
                .collect()
        }
        Err(error) => {
            tracing::warn!(file = %shown, %error, "servers of the workspace cannot be read");
            BTreeMap::new()
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
