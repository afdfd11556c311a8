//! Values of environment variables and headers, which may be secrets.

use cairn_engine::text::without_bom;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

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
    Env(String),
    File(PathBuf),
}

impl Setting {
    /// As the settings write it.
    pub fn new(text: &str) -> Self {
        Self(vec![
            match (text.strip_prefix("env:"), text.strip_prefix("file:")) {
                (Some(name), _) => Part::Env(name.to_owned()),
                (None, Some(path)) => Part::File(PathBuf::from(path)),
                (None, None) => Part::Literal(text.to_owned()),
            },
        ])
    }

    /// As `.mcp.json` writes it: each `${NAME}` stands for an environment variable.
    ///
    /// # Errors
    /// A `${…}` that is no plain name.
    pub fn from_template(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            if !is_variable(name) {
                return Err("has a ${…} that is no plain name of a variable".to_owned());
            }
            if !before.is_empty() {
                parts.push(Part::Literal(before.to_owned()));
            }
            parts.push(Part::Env(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// What is wrong with a reference, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        self.0.iter().find_map(|part| match part {
            Part::Env(name) if !is_variable(name) => {
                Some("refers to env: without the plain name of a variable".to_owned())
            }
            Part::File(path) if path.as_os_str().is_empty() => {
                Some("refers to file: without a path".to_owned())
            }
            Part::Literal(text) if text.contains('\0') => Some("has a NUL character".to_owned()),
            Part::Env(_) | Part::File(_) | Part::Literal(_) => None,
        })
    }

    /// The variables and files that it refers to, as `env:NAME` and `file:PATH`.
    pub(crate) fn references(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Env(name) => Some(format!("env:{name}")),
            Part::File(path) => Some(format!("file:{}", path.display())),
        })
    }

    /// All of it, for a digest; never to be shown.
    pub(crate) fn identity(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Literal(text) => format!("text:{}:{text}", text.len()),
            Part::Env(name) => format!("env:{name}"),
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
                Part::Env(name) => match environment.get(name) {
                    Some(value) => resolved.add_referred(value),
                    None => {
                        return Err(format!(
                            "env:{name} is not set; set it, or change the setting"
                        ));
                    }
                },
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
            [Part::Env(name)] => write!(f, "env:{name}"),
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
