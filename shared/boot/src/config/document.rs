//! A TOML file that is read, of which only a part may count.

use super::fault::ConfigErrors;
use super::file;
use super::node::{Node, Value};
use serde_json::{Map, Value as Json};

/// A TOML file as it was read. Its settings are not interpreted yet.
#[derive(Debug, Clone)]
pub struct Document(pub(super) Node);

impl Document {
    /// Reads the text of a file, known under a name.
    ///
    /// # Errors
    /// Every fault of its syntax.
    pub fn parse(name: &str, toml: &str) -> Result<Self, ConfigErrors> {
        file::parse(name, toml).map(Self).map_err(ConfigErrors)
    }

    /// Takes out each setting that `keeps` does not accept, by its path and value, and returns those. A
    /// list is one setting, and each item of a list that is kept is one, too. Values may be secrets.
    pub fn retain(&mut self, keeps: impl Fn(&str, &Json) -> bool) -> Vec<(String, Json)> {
        let mut taken = Vec::new();
        retain(&mut self.0, &keeps, &mut taken);
        taken
    }

    /// All of it. Values may be secrets.
    pub fn to_json(&self) -> Json {
        to_json(&self.0)
    }
}

/// Whether the node stays.
fn retain(
    node: &mut Node,
    keeps: &impl Fn(&str, &Json) -> bool,
    taken: &mut Vec<(String, Json)>,
) -> bool {
    let path = node.path.clone();
    if let Value::Table(children) = &mut node.value
        && !path.ends_with(']')
    {
        children.retain(|_, child| retain(child, keeps, taken));
        // A table of which nothing is left says nothing; an empty one in the file neither.
        return !children.is_empty();
    }
    let json = to_json(node);
    if !keeps(&path, &json) {
        taken.push((path, json));
        return false;
    }
    if let Value::Array(items) = &mut node.value {
        items.retain_mut(|item| retain(item, keeps, taken));
    }
    true
}

fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Table(children) => {
            let fields = children
                .iter()
                .map(|(name, child)| (name.clone(), to_json(child)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::String(text) | Value::Text(text) => Json::String(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_kept_is_taken_out_and_returned() {
        let text = "\
[a]
one = 1
two = 'x'
[b.c]
list = []
[[rules]]
answer = 'allow'
[[rules]]
answer = 'deny'
";
        let mut document = Document::parse("f", text).unwrap();
        let taken = document.retain(|path, value| match path {
            "a.one" | "rules" => true,
            path if path.starts_with("rules[") => value["answer"] != "allow",
            _ => false,
        });
        assert_eq!(
            taken,
            [
                ("a.two".to_owned(), json!("x")),
                ("b.c.list".to_owned(), json!([])),
                ("rules[0]".to_owned(), json!({"answer": "allow"})),
            ]
        );
        let rest = json!({"a": {"one": 1}, "rules": [{"answer": "deny"}]});
        assert_eq!(document.to_json(), rest);
    }
}
