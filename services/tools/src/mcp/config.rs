//! One server of the settings.

use super::setting::Setting;
use super::{MESSAGE_BYTES, MESSAGE_BYTES_RANGE, SEPARATOR};
use crate::confine::Confine;
use crate::error::Fault;
use crate::tool::Effect;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::MatcherKind;
use cairn_http::Url;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest name of a server: room is left for the names of its tools.
const LONGEST_NAME: usize = 32;
/// Names of other sources.
const TAKEN: [&str; 2] = [crate::tool::BUILT_IN, crate::tool::PROGRAM];
/// Longest time limit that can be set, in milliseconds: a day.
const LONGEST_MS: u64 = 24 * 3600 * 1000;
/// What a server's name may be.
const NAMES: &str = "1 to 32 letters, digits, '-' and single '_', not at the ends";

/// A server as the settings describe it: a program, or an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The program, started without a shell. Either this or `url`.
    pub command: String,
    /// The program's arguments. They are shown, so they must not hold secrets.
    pub args: Vec<String>,
    /// The program's environment, besides `PATH`: no other variable is passed on.
    pub env: BTreeMap<String, Setting>,
    /// The folder that the program runs in; the workspace without one.
    pub cwd: Option<PathBuf>,
    /// Whether the program is confined to the workspace.
    pub confine: Confine,
    /// The address of a server over streamable HTTP. Either this or `command`.
    pub url: String,
    /// Headers of each request to `url`.
    pub headers: BTreeMap<String, Setting>,
    /// The protocol to speak.
    pub protocol: Protocol,
    /// The tools that are listed, by the server's names; all without a list.
    pub allow: Option<Vec<String>>,
    /// What a repeat of a tool's call may do, by the server's names; effectful unless it is declared.
    pub effects: BTreeMap<String, Effect>,
    /// How rules read arguments of its tools, by their names; by name and schema unless it is declared.
    pub arguments: BTreeMap<String, MatcherKind>,
    /// A call that takes longer is cancelled, in milliseconds. What it did is not known unless it is pure.
    pub time_limit_ms: u64,
    /// Longest time to start or connect and to list the tools, in milliseconds.
    pub start_ms: u64,
    /// Most bytes of one message: a result with more fails its call. A result of 60 MiB needs 64 MiB.
    pub message_bytes: usize,
    /// It keeps state between calls. Such a server is refused where several tools replicas run, as each
    /// of them would have one of its own.
    pub stateful: bool,
    /// Tools that the server calls read-only are called without asking, and again after a loss.
    pub trust_hints: bool,
    /// Tools that are not listed, by the server's names.
    #[serde(skip)]
    pub disabled_tools: Vec<String>,
    /// The program with its arguments, or the address, as a file has it that has variables in it.
    #[serde(skip)]
    pub written: Option<String>,
    /// The values of these variables, which logs must not show.
    #[serde(skip)]
    pub values: Vec<String>,
}

/// The protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// The newest one that the server knows, which is remembered.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The versions with an `initialize` handshake, up to 2025-11-25.
    #[serde(rename = "legacy")]
    Legacy,
    /// The version 2026-07-28.
    #[serde(rename = "2026-07-28")]
    V20260728,
}

impl Protocol {
    /// As settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::V20260728 => "2026-07-28",
        }
    }
}

/// A server, and where its settings come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The settings.
    pub config: ServerConfig,
    /// Whether it may start.
    pub origin: Origin,
}

/// Where the settings of a server come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The operator's settings: it is started.
    Operator,
    /// A file of the workspace, by its path: it is started once a person allowed it.
    File(PathBuf),
    /// The settings, for a command that does not need the server: it is not started.
    NotNeeded,
}

impl Server {
    /// A server of the operator's settings.
    pub fn of_operator(config: ServerConfig) -> Self {
        Self {
            config,
            origin: Origin::Operator,
        }
    }

    /// A server of a `.mcp.json`, which waits for a person.
    pub fn of_file(config: ServerConfig, file: impl Into<PathBuf>) -> Self {
        Self {
            config,
            origin: Origin::File(file.into()),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            confine: Confine::None,
            url: String::new(),
            headers: BTreeMap::new(),
            protocol: Protocol::default(),
            allow: None,
            effects: BTreeMap::new(),
            arguments: BTreeMap::new(),
            time_limit_ms: 60_000,
            start_ms: 30_000,
            message_bytes: MESSAGE_BYTES,
            stateful: false,
            trust_hints: false,
            disabled_tools: Vec::new(),
            written: None,
            values: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// Whether it is a program, and not an address.
    pub fn is_program(&self) -> bool {
        self.url.is_empty()
    }

    /// Covers everything that decides what is started or connected to, with `folder` as the folder of a
    /// program. Literal values are covered, too: a variable such as `NODE_OPTIONS` can name a program.
    pub fn digest(&self, folder: &Path) -> String {
        let mut parts = vec![self.protocol.name().to_owned()];
        match self.is_program() {
            true => parts.extend(self.program(folder)),
            false => parts.push(self.url.clone()),
        }
        self.covered(parts, Setting::identity)
    }

    /// Covers what the server is, with the names of variables and headers and without their values: with
    /// another key it is the same server. `folder` is that of a program.
    pub fn identity(&self, folder: &Path) -> String {
        let parts = match self.is_program() && self.written.is_none() {
            true => self.program(folder),
            // The query of an address may hold a key, and so may a variable.
            false => vec![self.place(), self.folder(folder).display().to_string()],
        };
        self.covered(parts, |_| String::new())
    }

    fn program(&self, folder: &Path) -> Vec<String> {
        let folder = self.folder(folder).display().to_string();
        let first = [self.command.clone(), folder, self.args.len().to_string()];
        // A program that is confined less than a person saw is another one.
        let is_confined = self.confine == Confine::Workspace;
        let confined = is_confined.then(|| "confined to the workspace".to_owned());
        let args = self.args.iter().cloned();
        first.into_iter().chain(args).chain(confined).collect()
    }

    fn covered(&self, mut parts: Vec<String>, value_of: impl Fn(&Setting) -> String) -> String {
        for (name, value) in self.settings() {
            parts.extend([name.clone(), value_of(value)]);
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        hex(&digest(&parts))
    }

    /// The program with its arguments, or the address without user, query and fragment. Variables of a file
    /// are not put in.
    pub fn place(&self) -> String {
        if let Some(written) = &self.written {
            return written.clone();
        }
        if self.is_program() {
            let words = std::iter::once(&self.command).chain(&self.args);
            return words.map(String::as_str).collect::<Vec<_>>().join(" ");
        }
        match Url::parse(&self.url) {
            Ok(mut url) => {
                // Both fail only for addresses that have no place for them.
                _ = url.set_username("");
                _ = url.set_password(None);
                url.set_query(None);
                url.set_fragment(None);
                url.to_string()
            }
            Err(_) => "an address that cannot be read".to_owned(),
        }
    }

    /// The variables and files that it refers to, as `env:NAME` and `file:PATH`, once each.
    pub fn references(&self) -> Vec<String> {
        let all = self.settings().flat_map(|(_, value)| value.references());
        let all: std::collections::BTreeSet<String> = all.collect();
        all.into_iter().collect()
    }

    /// Where a program runs; `folder` is the workspace.
    pub(crate) fn folder(&self, folder: &Path) -> PathBuf {
        match &self.cwd {
            Some(cwd) => folder.join(cwd),
            None => folder.to_owned(),
        }
    }

    fn settings(&self) -> impl Iterator<Item = (&String, &Setting)> {
        self.env.iter().chain(&self.headers)
    }

    /// Adds every fault of the server `name`, whose fields begin with `at`.
    pub(crate) fn validate(&self, at: &str, name: &str, faults: &mut Vec<Fault>) {
        if !is_server_name(name) {
            faults.push(Fault::new(
                at,
                format!("has the name '{}'", name.escape_debug()),
                NAMES,
            ));
        } else if TAKEN.contains(&name) {
            faults.push(Fault::new(
                at,
                "has the name of another source",
                "another name",
            ));
        }
        let mut fault = |field: &str, problem: String, allowed: &str| {
            faults.push(Fault::new(format!("{at}.{field}"), problem, allowed));
        };
        match (self.command.is_empty(), self.url.is_empty()) {
            (true, true) => fault(
                "command",
                "is missing".to_owned(),
                "a program, or an address in url",
            ),
            (false, false) => fault(
                "url",
                "is given besides command".to_owned(),
                "one of the two",
            ),
            (false, true) => self.validate_program(&mut fault),
            (true, false) => self.validate_address(&mut fault),
        }
        for (field, settings) in [("env", &self.env), ("headers", &self.headers)] {
            for (name, value) in settings {
                if let Some(problem) = value.fault() {
                    let field = format!("{field}.{}", name.escape_debug());
                    fault(&field, problem, "a text, env:NAME or file:PATH");
                }
            }
        }
        for (field, value) in [
            ("time_limit_ms", self.time_limit_ms),
            ("start_ms", self.start_ms),
        ] {
            if value == 0 || value > LONGEST_MS {
                fault(field, format!("is {value}"), &format!("1 to {LONGEST_MS}"));
            }
        }
        if !MESSAGE_BYTES_RANGE.contains(&self.message_bytes) {
            let (least, most) = (MESSAGE_BYTES_RANGE.start(), MESSAGE_BYTES_RANGE.end());
            let problem = format!("is {}", self.message_bytes);
            fault("message_bytes", problem, &format!("{least} to {most}"));
        }
    }

    fn validate_program(&self, fault: &mut impl FnMut(&str, String, &str)) {
        if self
            .args
            .iter()
            .chain([&self.command])
            .any(|it| it.contains('\0'))
        {
            fault(
                "args",
                "has a NUL character".to_owned(),
                "text without NUL characters",
            );
        }
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let problem = format!("names '{}'", name.escape_debug());
                fault(
                    "env",
                    problem,
                    "names of variables, without = and NUL characters",
                );
            }
        }
        if !self.headers.is_empty() {
            fault(
                "headers",
                "is given for a program".to_owned(),
                "headers only with url",
            );
        }
    }

    fn validate_address(&self, fault: &mut impl FnMut(&str, String, &str)) {
        let url = Url::parse(&self.url).ok();
        let is_web =
            url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_web {
            fault(
                "url",
                "is no address".to_owned(),
                "an address with http:// or https://",
            );
        }
        for name in self.headers.keys() {
            if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                let problem = format!("names '{}'", name.escape_debug());
                fault("headers", problem, "names of headers");
            }
        }
        let is_confined = self.confine != Confine::None;
        if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() || is_confined {
            fault(
                "args",
                "or env, cwd or confine is given for an address".to_owned(),
                "these only with command",
            );
        }
    }
}

/// Whether a server can have this name.
pub(crate) fn is_server_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_part)
        && !name.contains(SEPARATOR)
        && !name.starts_with('_')
        && !name.ends_with('_')
}

#[cfg(test)]
mod tests;
