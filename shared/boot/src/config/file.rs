//! TOML into a tree. Only line numbers of the text go into faults: a line may hold a secret.

use super::fault::{ConfigFault, Origin};
use super::node::{Node, Value, child_path};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const MAX_BYTES: u64 = 1024 * 1024;

/// The tree of a file, or what is wrong with it. `None` if it may be absent and is.
pub(super) fn read(path: &Path, may_be_absent: bool) -> Result<Option<Node>, Vec<ConfigFault>> {
    let name: Arc<str> = Arc::from(path.display().to_string());
    let fault = |problem: String, allowed: &str| {
        vec![ConfigFault {
            path: String::new(),
            source: Origin::File {
                name: Arc::clone(&name),
                line: 0,
            },
            problem,
            allowed: allowed.to_owned(),
        }]
    };
    let size = match std::fs::metadata(path) {
        Ok(file) => file.len(),
        Err(error) if may_be_absent && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(fault(format!("cannot be read: {error}"), "")),
    };
    if size > MAX_BYTES {
        let problem = format!("has {size} bytes");
        return Err(fault(problem, "at most 1048576 bytes"));
    }
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&name, &text).map(Some),
        Err(error) => Err(fault(format!("cannot be read: {error}"), "")),
    }
}

/// The tree of a TOML document, or every fault of its syntax.
pub(super) fn parse(name: &str, text: &str) -> Result<Node, Vec<ConfigFault>> {
    let source = Source {
        name: Arc::from(name),
        text,
        fixed: None,
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut faults: Vec<_> = errors
        .iter()
        .map(|error| ConfigFault {
            path: String::new(),
            source: source.origin(error.span().map_or(0, |span| span.start)),
            problem: format!("is not valid TOML: {}", error.message()),
            allowed: String::new(),
        })
        .collect();
    let root = source.table("", 0, table.get_ref(), &mut faults);
    if faults.is_empty() {
        Ok(root)
    } else {
        Err(faults)
    }
}

/// A single value in TOML, as it may stand in a variable or a flag.
pub(super) fn parse_value(text: &str, path: &str, origin: &Origin) -> Option<Node> {
    let value = DeValue::parse(text.trim()).ok()?;
    let source = Source {
        name: Arc::from(""),
        text,
        fixed: Some(origin.clone()),
    };
    let mut faults = Vec::new();
    let node = source.node(path, &value, &mut faults);
    faults.is_empty().then_some(node)
}

struct Source<'a> {
    name: Arc<str>,
    text: &'a str,
    fixed: Option<Origin>,
}

impl Source<'_> {
    fn origin(&self, offset: usize) -> Origin {
        if let Some(origin) = &self.fixed {
            return origin.clone();
        }
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        Origin::File {
            name: Arc::clone(&self.name),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
        }
    }

    fn table(
        &self,
        path: &str,
        offset: usize,
        table: &DeTable<'_>,
        faults: &mut Vec<ConfigFault>,
    ) -> Node {
        let mut children = BTreeMap::new();
        for (name, value) in table.iter() {
            let name = name.get_ref().as_ref();
            let child = self.node(&child_path(path, name), value, faults);
            children.insert(name.to_owned(), child);
        }
        Node {
            path: path.to_owned(),
            origin: self.origin(offset),
            value: Value::Table(children),
        }
    }

    fn node(
        &self,
        path: &str,
        spanned: &Spanned<DeValue<'_>>,
        faults: &mut Vec<ConfigFault>,
    ) -> Node {
        let offset = spanned.span().start;
        let value = match spanned.get_ref() {
            DeValue::Table(table) => return self.table(path, offset, table, faults),
            DeValue::Array(items) => Value::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.node(&format!("{path}[{index}]"), item, faults))
                    .collect(),
            ),
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(value) => Value::String(value.to_string()),
            DeValue::Float(value) => Value::Float(value.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
                Ok(value) => Value::Integer(value),
                Err(_) => {
                    faults.push(ConfigFault {
                        path: path.to_owned(),
                        source: self.origin(offset),
                        problem: "is too large a number".to_owned(),
                        allowed: "whole numbers of 64 bits".to_owned(),
                    });
                    Value::Integer(0)
                }
            },
        };
        Node {
            path: path.to_owned(),
            origin: self.origin(offset),
            value,
        }
    }
}
