//! The values of a call that rules are matched against.

use crate::canonical::to_canonical_json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest path in bytes; systems take no longer one.
const MAX_PATH: usize = 4096;

/// How a tool declares a value of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matcher {
    /// Its name in rules.
    pub name: String,
    /// How it is read from the argument.
    pub kind: MatcherKind,
    /// The argument that holds it, at the top level.
    pub argument: String,
    /// The argument's value in a call that leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The folder of the program that gets the path. An absolute path below it is the same as a relative
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatcherKind {
    /// A path, normalised by its text alone: without `.`, `..` and empty parts.
    Path,
    /// The host of an address, in lower case and without port and user.
    Host,
    /// The text as it is. With a part `..` between separators it is unclear: it may be a path.
    Text,
    /// The JSON of what is no text, such as a number or a list.
    Json,
}

/// A value of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// It is this.
    Known(String),
    /// It cannot be known from the arguments: it is no text, or may be read in more than one way.
    Unclear,
}

/// The values of a call by name. What the call leaves out is not there.
pub type Values = BTreeMap<String, Value>;

/// A value that a person approved, or that the tools service found: the name, and a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    /// The name of the value.
    pub name: String,
    /// The pattern, or the value itself where a value is meant.
    pub pattern: String,
}

/// The values of a call with these arguments, which are JSON as the model wrote them.
pub fn values(matchers: &[Matcher], arguments: &str) -> Values {
    if matchers.is_empty() {
        return Values::new();
    }
    let text = match arguments.trim().is_empty() {
        true => "{}",
        false => arguments,
    };
    let Ok(serde_json::Value::Object(given)) = serde_json::from_str(text) else {
        // No tool takes them; a judge must not find them harmless all the same.
        let all = matchers.iter();
        return all
            .map(|matcher| (matcher.name.clone(), Value::Unclear))
            .collect();
    };
    let mut values = Values::new();
    for matcher in matchers {
        let argument = given.get(&matcher.argument).filter(|it| !it.is_null());
        let value = match (argument, &matcher.default) {
            (None, None) => continue,
            (None, Some(default)) => read(matcher, default),
            (Some(value), _) if matcher.kind == MatcherKind::Json => {
                Value::Known(to_canonical_json(value))
            }
            (Some(serde_json::Value::String(text)), _) => read(matcher, text),
            (Some(_), _) => Value::Unclear,
        };
        // Two arguments of one name: a rule must not see the harmless one alone.
        let known = values.get(&matcher.name);
        let value = match known.is_none_or(|known| *known == value) {
            true => value,
            false => Value::Unclear,
        };
        values.insert(matcher.name.clone(), value);
    }
    values
}

/// The values that a call is judged by: those that the tools service found hold before what the arguments
/// say.
pub fn with_resolved(mut values: Values, resolved: &[Condition]) -> Values {
    for found in resolved {
        values.insert(found.name.clone(), Value::Known(found.pattern.clone()));
    }
    values
}

fn read(matcher: &Matcher, text: &str) -> Value {
    let value = match matcher.kind {
        MatcherKind::Path => path(text).map(|path| match &matcher.folder {
            Some(folder) => below(folder, path),
            None => path,
        }),
        MatcherKind::Host => host(text),
        MatcherKind::Text => {
            let leaves = text.split(['/', '\\']).any(|part| part == "..");
            (!leaves).then(|| text.to_owned())
        }
        MatcherKind::Json => Some(text.to_owned()),
    };
    value.map_or(Value::Unclear, Value::Known)
}

/// A path that leaves its folder keeps its leading `..`; the folder itself is `.`. Characters that some
/// readers decode or take for separators make it unclear.
fn path(text: &str) -> Option<String> {
    let is_ambiguous = |c: char| c.is_control() || matches!(c, '\\' | '%');
    if text.contains(is_ambiguous) || text.starts_with('~') || text.len() > MAX_PATH {
        return None;
    }
    let text = match text.strip_prefix("file:") {
        Some(_) => return None,
        None => text,
    };
    let mut parts: Vec<&str> = Vec::new();
    let is_absolute = text.starts_with('/');
    for part in text.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(&last)) if last != ".." => {
                parts.pop();
            }
            ("..", None) if is_absolute => {}
            (part, _) => parts.push(part),
        }
    }
    let joined = parts.join("/");
    Some(match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    })
}

/// A path from a folder, if it is below.
fn below(folder: &str, path: String) -> String {
    match path.strip_prefix(folder) {
        Some("") => ".".to_owned(),
        Some(rest) if folder.ends_with('/') => rest.to_owned(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None => path,
        },
        None => path,
    }
}

/// The host that every reader of addresses sees, or none. What readers differ about is refused: user
/// names, backslashes, encoded or control characters, and addresses that are not written out.
fn host(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
    let authority = rest.split(['/', '?', '#']).next()?;
    if !is_scheme || scheme.is_empty() {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let address: core::net::Ipv6Addr = address.parse().ok()?;
            is_port(port).then(|| address.to_string())?
        }
        None => {
            let (name, port) = match authority.find(':') {
                Some(at) => authority.split_at(at),
                None => (authority, ""),
            };
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
            if name.is_empty() || !name.bytes().all(is_name) || !is_port(port) {
                return None;
            }
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            // Readers differ about numbers that are not written out.
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_number = last.starts_with("0x") || last.bytes().all(|it| it.is_ascii_digit());
            match !is_number || name.parse::<core::net::Ipv4Addr>().is_ok() {
                true => name,
                false => return None,
            }
        }
    };
    (!host.is_empty()).then_some(host)
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    }
}
