//! Values of environment variables and headers, which may be secrets.

use cairn_engine::text::without_bom;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Shown in place of a literal value.
const MASK: &str = "********";
/// Most bytes of a file that holds a value.
const MOST_BYTES: u64 = 64 * 1024;

/// A value: literal, `env:NAME` or `file:PATH`. References are resolved when the server is started. A
/// literal value is never shown, as people write secrets there, too.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Setting(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Env {
        name: String,
        /// Taken if the variable is not set, or empty.
        default: Option<String>,
    },
    File(PathBuf),
}

/// A part of a text as `.mcp.json` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Variable {
        name: &'t str,
        default: Option<&'t str>,
    },
}

impl<'t> Piece<'t> {
    /// The text that it stands for; `None` for a variable that is not set.
    pub(crate) fn value<'a>(self, environment: &'a BTreeMap<String, String>) -> Option<&'a str>
    where
        't: 'a,
    {
        match self {
            Self::Text(text) => Some(text),
            Self::Variable { name, default } => value_of(name, default, environment),
        }
    }
}

/// As a shell reads `${NAME:-default}`: an empty variable counts as one that is not set.
fn value_of<'a>(
    name: &str,
    default: Option<&'a str>,
    environment: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    let value = environment.get(name).map(String::as_str);
    let value = value.filter(|value| default.is_none() || !value.is_empty());
    value.or(default)
}

/// The parts of a text.
///
/// # Errors
/// A `${…}` that is no name of a variable, in words that follow what has it.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let fault = || "has a ${…} that is no name of a variable".to_owned();
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, after) = after.split_once('}').ok_or_else(fault)?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if !is_variable(name) || default.is_some_and(|text| text.contains("${")) {
            return Err(fault());
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Variable { name, default });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

impl Setting {
    /// As the settings write it.
    pub fn new(text: &str) -> Self {
        Self(vec![
            match (text.strip_prefix("env:"), text.strip_prefix("file:")) {
                (Some(name), _) => Part::Env {
                    name: name.to_owned(),
                    default: None,
                },
                (None, Some(path)) => Part::File(PathBuf::from(path)),
                (None, None) => Part::Literal(text.to_owned()),
            },
        ])
    }

    /// As `.mcp.json` writes it: each `${NAME}` stands for an environment variable, and `${NAME:-default}`
    /// for one or a text in its place.
    ///
    /// # Errors
    /// A `${…}` that is no name of a variable.
    pub fn from_template(text: &str) -> Result<Self, String> {
        let part = |piece| match piece {
            Piece::Text(text) => Part::Literal(text.to_owned()),
            Piece::Variable { name, default } => Part::Env {
                name: name.to_owned(),
                default: default.map(str::to_owned),
            },
        };
        let mut parts: Vec<Part> = pieces(text)?.into_iter().map(part).collect();
        if parts.is_empty() {
            parts.push(Part::Literal(String::new()));
        }
        Ok(Self(parts))
    }

    /// What is wrong with a reference, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        self.0.iter().find_map(|part| match part {
            Part::Env { name, .. } if !is_variable(name) => {
                Some("refers to env: without the plain name of a variable".to_owned())
            }
            Part::File(path) if path.as_os_str().is_empty() => {
                Some("refers to file: without a path".to_owned())
            }
            Part::Literal(text) if text.contains('\0') => Some("has a NUL character".to_owned()),
            Part::Env { .. } | Part::File(_) | Part::Literal(_) => None,
        })
    }

    /// The variables and files that it refers to, as `env:NAME` and `file:PATH`.
    pub(crate) fn references(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Env { name, .. } => Some(format!("env:{name}")),
            Part::File(path) => Some(format!("file:{}", path.display())),
        })
    }

    /// The file that it refers to, if it is one reference to a file.
    pub fn file(&self) -> Option<&Path> {
        match self.0.as_slice() {
            [Part::File(path)] => Some(path),
            _ => None,
        }
    }

    /// All of it, for a digest; never to be shown.
    pub(crate) fn identity(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Literal(text) => format!("text:{}:{text}", text.len()),
            Part::Env { name, default } => match default {
                Some(default) => format!("env:{name}:-{default}"),
                None => format!("env:{name}"),
            },
            Part::File(path) => format!("file:{}", path.display()),
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The value itself. `environment` is the process's.
    ///
    /// # Errors
    /// A variable that is not set, or a file that cannot be read: which one, never a value.
    pub(crate) fn resolve(
        &self,
        environment: &BTreeMap<String, String>,
    ) -> Result<Resolved, String> {
        let mut resolved = Resolved::default();
        for part in &self.0 {
            match part {
                Part::Literal(text) => resolved.add(text),
                Part::Env { name, default } => {
                    match value_of(name, default.as_deref(), environment) {
                        Some(value) => resolved.add_referred(value),
                        None => {
                            return Err(format!(
                                "env:{name} is not set; set it, or change the setting"
                            ));
                        }
                    }
                }
                Part::File(path) => {
                    let text = read(path).map_err(|error| {
                        format!("file:{} cannot be read: {error}", path.display())
                    })?;
                    resolved.add_referred(text.trim_end_matches(['\r', '\n']));
                }
            }
        }
        Ok(resolved)
    }
}

/// A value, and its parts, which logs must not show: people write secrets as they are, too.
#[derive(Default)]
pub(crate) struct Resolved {
    pub(crate) value: String,
    pub(crate) secrets: Vec<String>,
    /// Those that are not in the settings themselves.
    pub(crate) referred: Vec<String>,
}

impl Resolved {
    fn add(&mut self, secret: &str) {
        self.value.push_str(secret);
        self.secrets.push(secret.to_owned());
    }

    fn add_referred(&mut self, secret: &str) {
        self.add(secret);
        self.referred.push(secret.to_owned());
    }
}

fn read(path: &PathBuf) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(without_bom(&text).to_owned())
}

pub(crate) fn is_variable(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part)
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [Part::Env { name, .. }] => write!(f, "env:{name}"),
            [Part::File(path)] => write!(f, "file:{}", path.display()),
            _ => f.write_str(MASK),
        }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({self})")
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(deserializer)?))
    }
}
