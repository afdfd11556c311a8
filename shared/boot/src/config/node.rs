//! The tree that the layers are merged in: values with the place where each was said.

use super::fault::{ConfigFault, Origin};
use super::file;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The full path, which no other node of the tree has.
    pub(super) path: String,
    pub(super) origin: Origin,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Table(BTreeMap<String, Node>),
    Array(Vec<Node>),
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    /// From a variable or a flag: what it means is decided by the type of the setting.
    Text(String),
}

/// The path of a setting inside another.
pub(super) fn child_path(parent: &str, name: &str) -> String {
    let is_plain = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let name = if is_plain {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    match parent {
        "" => name,
        parent => format!("{parent}.{name}"),
    }
}

/// Whether a path is another one or lies inside it.
pub(super) fn is_within(path: &str, outer: &str) -> bool {
    let rest = path.strip_prefix(outer);
    !outer.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Node {
    pub(super) fn root() -> Self {
        Self {
            path: String::new(),
            origin: Origin::Default,
            value: Value::Table(BTreeMap::new()),
        }
    }

    /// A tree with nothing but one text at the end of `names`.
    pub(super) fn branch(names: &[&str], origin: &Origin, text: &str) -> Self {
        let mut root = Self::root();
        root.origin = origin.clone();
        root.grow(names, text);
        root
    }

    fn grow(&mut self, names: &[&str], text: &str) {
        let Some((name, rest)) = names.split_first() else {
            self.value = Value::Text(text.to_owned());
            return;
        };
        let mut child = Self {
            path: child_path(&self.path, name),
            origin: self.origin.clone(),
            value: Value::Table(BTreeMap::new()),
        };
        child.grow(rest, text);
        self.value = Value::Table(BTreeMap::from([((*name).to_owned(), child)]));
    }

    /// Puts another tree over this one: tables are merged, anything else is replaced.
    pub(super) fn overlay(&mut self, over: Self, faults: &mut Vec<ConfigFault>) {
        let is_table = |node: &Self| matches!(node.value, Value::Table(_));
        let over = if is_table(self) {
            over.expanded()
        } else {
            over
        };
        if is_table(&over) && !is_table(self) {
            *self = self.clone().expanded();
        }
        match (&mut self.value, over.value) {
            (Value::Table(own), Value::Table(other)) => {
                for (name, node) in other {
                    match own.get_mut(&name) {
                        Some(below) => below.overlay(node, faults),
                        None => {
                            own.insert(name, node);
                        }
                    }
                }
            }
            (_, value) => {
                if matches!(value, Value::Table(_)) {
                    faults.push(ConfigFault {
                        path: self.path.clone(),
                        source: self.origin.clone(),
                        problem: format!("has a value, but {} sets parts of it", over.origin),
                        allowed: "a table".to_owned(),
                    });
                }
                self.value = value;
                self.origin = over.origin;
            }
        }
    }

    /// The node with a text like `{ a = 1 }` or `["a", "b"]` read as what it looks like.
    pub(super) fn expanded(self) -> Self {
        match &self.value {
            Value::Text(text) if text.trim_start().starts_with(['{', '[']) => {
                file::parse_value(text, &self.path, &self.origin).unwrap_or(self)
            }
            _ => self,
        }
    }

    /// Takes the node with this path out of the tree, or, where a text was read as more than it
    /// is here, the node that it is a part of. Gives the path of what was taken out.
    pub(super) fn remove(&mut self, path: &str) -> Option<String> {
        let found = |child: &&mut Self| is_within(path, &child.path);
        let child = match &mut self.value {
            Value::Table(children) => children.values_mut().find(found),
            Value::Array(items) => items.iter_mut().find(found),
            _ => None,
        }?;
        if child.path != path
            && let Some(removed) = child.remove(path)
        {
            return Some(removed);
        }
        let removed = child.path.clone();
        match &mut self.value {
            Value::Table(children) => children.retain(|_, child| child.path != removed),
            Value::Array(items) => items.retain(|item| item.path != removed),
            _ => {}
        }
        Some(removed)
    }

    /// Where each value was said, by path.
    pub(super) fn origins(&self, into: &mut BTreeMap<String, Origin>) {
        match &self.value {
            Value::Table(children) if !children.is_empty() => {
                children.values().for_each(|child| child.origins(into));
            }
            value => {
                if let Value::Array(items) = value {
                    items.iter().for_each(|item| item.origins(into));
                }
                into.insert(self.path.clone(), self.origin.clone());
            }
        }
    }
}
