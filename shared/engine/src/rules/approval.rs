//! The further calls that an approval of a call can cover.
//!
//! One function makes what a person is shown ([`scopes`]). The approval stores what was chosen of it, and the same
//! type says whether a later call is covered ([`GrantScope::covers`]). So what is shown, what is granted and what
//! matches cannot differ. No scope looks at the content of a call.

use super::command::{is_covered, prefix_of, simple_command};
use super::{Matcher, MatcherKind, SHELL_TOOL, Scope};
use crate::decide::ToolFacts;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::fmt;

/// The folder of the workspace, or of the program that gets a path.
const HERE: &str = ".";

/// A server of tools, as it was set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its name in the settings.
    pub name: String,
    /// Covers its settings. With others it is another server.
    pub digest: String,
}

/// The further calls that an approval covers, of the agent whose call was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantScope {
    /// Every call of the tool.
    Tool,
    /// Calls of the tool whose only path is below a folder.
    Folder {
        /// As [`Scope`] has paths: from the folder of the tool, which is `.`, or from the root.
        folder: String,
    },
    /// Commands that are one simple command and begin with these words.
    Prefix {
        /// The program, and the words after it that count.
        words: Vec<String>,
        /// The folder that the commands run in.
        folder: String,
    },
    /// Every call of every tool of a server.
    Server(ToolServer),
}

/// Names what an approval of a call covers: `call`, `tool`, `folder:DIR`, `prefix:WORDS`, `server:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeId {
    /// The call alone.
    Call,
    /// See [`GrantScope::Tool`].
    Tool,
    /// See [`GrantScope::Folder`].
    Folder(String),
    /// See [`GrantScope::Prefix`].
    Prefix(Vec<String>),
    /// See [`GrantScope::Server`].
    Server(String),
}

/// One way to approve a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalScope {
    /// Names it among those of its call.
    pub id: ScopeId,
    /// The further calls that need no approval then. None for the call alone.
    pub scope: Option<GrantScope>,
}

/// A call as approvals of further calls compare it.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// Name of its tool.
    pub tool: &'a str,
    /// The server of its tool; none for tools that have none.
    pub server: Option<&'a ToolServer>,
    /// What it touches.
    pub scope: &'a Scope,
    /// Its arguments as the model wrote them.
    pub arguments: &'a str,
}

/// The ways to approve a call of `tool`, from the narrowest to the widest. `scope` is what the call is judged by, and
/// `arguments` are as the model wrote them. A call that is asked about each time (`is_protected`) is approved alone.
/// Each scope covers the call itself.
pub fn scopes(
    tool: &str,
    facts: &ToolFacts,
    scope: &Scope,
    arguments: &str,
    is_protected: bool,
) -> Vec<ApprovalScope> {
    let call = Called {
        tool,
        server: facts.server.as_ref(),
        scope,
        arguments,
    };
    let mut scopes = vec![ApprovalScope {
        id: ScopeId::Call,
        scope: None,
    }];
    if !is_protected {
        let further = [
            call.prefix(),
            call.folder(&facts.matchers),
            Some(GrantScope::Tool),
            facts.server.clone().map(GrantScope::Server),
        ];
        let further = further.into_iter().flatten();
        scopes.extend(further.filter(|it| it.covers(&call)).map(Into::into));
    }
    scopes
}

impl GrantScope {
    /// Whether it covers a call. All but [`GrantScope::Server`] are of one tool, which is for the caller to compare.
    pub fn covers(&self, call: &Called<'_>) -> bool {
        match self {
            Self::Tool => !call.is_of_shell(),
            Self::Folder { folder } => {
                !call.is_of_shell()
                    && call.scope.only_path().is_some()
                    && call.scope.is_below(folder)
            }
            Self::Prefix { words, folder } => call
                .command()
                .is_some_and(|(command, at)| at == *folder && is_covered(words, &command)),
            Self::Server(server) => call.server == Some(server),
        }
    }

    /// Its name.
    pub fn id(&self) -> ScopeId {
        match self {
            Self::Tool => ScopeId::Tool,
            Self::Folder { folder } => ScopeId::Folder(folder.clone()),
            Self::Prefix { words, .. } => ScopeId::Prefix(words.clone()),
            Self::Server(server) => ScopeId::Server(server.name.clone()),
        }
    }
}

impl From<GrantScope> for ApprovalScope {
    fn from(scope: GrantScope) -> Self {
        Self {
            id: scope.id(),
            scope: Some(scope),
        }
    }
}

impl ScopeId {
    /// Reads a name. None if it names no kind of scope.
    pub fn parse(text: &str) -> Option<Self> {
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match text.split_once(':') {
            None if text == "call" => Some(Self::Call),
            None if text == "tool" => Some(Self::Tool),
            Some(("folder", folder)) => filled(folder).map(Self::Folder),
            Some(("server", name)) => filled(name).map(Self::Server),
            Some(("prefix", words)) => {
                let words: Option<Vec<_>> = words.split(' ').map(filled).collect();
                words.map(Self::Prefix)
            }
            _ => None,
        }
    }
}

impl fmt::Display for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => f.write_str("call"),
            Self::Tool => f.write_str("tool"),
            Self::Folder(folder) => write!(f, "folder:{folder}"),
            Self::Prefix(words) => write!(f, "prefix:{}", words.join(" ")),
            Self::Server(name) => write!(f, "server:{name}"),
        }
    }
}

/// The arguments of the tool that runs commands. With any other argument it is another kind of call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellArguments {
    command: String,
    #[serde(default, rename = "timeout")]
    _timeout: Option<Json>,
    #[serde(default)]
    cwd: Option<String>,
}

impl Called<'_> {
    /// Its tool runs commands of a shell. A server's tool has another name.
    fn is_of_shell(&self) -> bool {
        self.tool == SHELL_TOOL && self.server.is_none()
    }

    /// The command of a call that runs one, and the folder that it runs in. None if that is not clear.
    fn command(&self) -> Option<(String, String)> {
        let given = Some(self.arguments).filter(|_| self.is_of_shell())?;
        let given: ShellArguments = serde_json::from_str(given).ok()?;
        let folder = match (self.scope.value("cwd"), given.cwd) {
            (Some(folder), _) => folder.ok()?,
            (None, None) => HERE,
            (None, Some(_)) => return None,
        };
        Some((given.command, folder.to_owned()))
    }

    fn prefix(&self) -> Option<GrantScope> {
        let (command, folder) = self.command()?;
        let words = prefix_of(&simple_command(&command)?)?;
        Some(GrantScope::Prefix { words, folder })
    }

    /// Tools that take several paths do different things with each.
    fn folder(&self, matchers: &[Matcher]) -> Option<GrantScope> {
        let paths = matchers.iter().filter(|it| it.kind == MatcherKind::Path);
        let path = self.scope.only_path().filter(|_| paths.count() == 1)?;
        let folder = folder_of(path)?.to_owned();
        Some(GrantScope::Folder { folder })
    }
}

/// The folder of a path. None for a folder that is not known, and for the root, below which is everything.
fn folder_of(path: &str) -> Option<&str> {
    let first = path.split('/').next().unwrap_or_default();
    if path == HERE || first == ".." || first.ends_with(':') {
        return None;
    }
    match path.rsplit_once('/') {
        Some((folder, _)) => Some(folder).filter(|folder| !folder.is_empty()),
        None => Some(HERE),
    }
}

#[cfg(test)]
mod tests;
