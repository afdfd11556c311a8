//! What a tool asks a person in the middle of a call: forms of the Model Context Protocol.
//!
//! A server sends requests by keys, as JSON, and gets responses by the same keys. Only
//! `elicitation/create` is answered by people; a server that asks for anything else asks in vain.

mod field;

use cairn_engine::command::Settlement;
use field::{Field, Kind};
use serde_json::{Map, Value, json};

/// Longest request of a tool that a person is asked, in bytes of JSON.
const MAX_INPUT_REQUEST: usize = 32 * 1024;

/// One question of a tool.
#[derive(Debug)]
struct Request {
    key: String,
    message: String,
    /// The fields of its form; none for an address to open.
    fields: Vec<Field>,
    url: String,
}

/// Whether people can answer the requests.
///
/// # Errors
/// What they cannot answer.
pub fn check(requests: &str) -> Result<(), String> {
    parse(requests).map(|_| ())
}

/// The question of a tool in words, and the answers to choose from.
pub fn question(requests: &str) -> (String, Vec<String>) {
    let Ok(requests) = parse(requests) else {
        return ("something that cannot be shown".to_owned(), Vec::new());
    };
    let mut text = String::new();
    let several = requests.len() > 1;
    for request in &requests {
        if !text.is_empty() {
            text.push(' ');
        }
        if several {
            text.push_str(&format!("{}: ", request.key));
        }
        text.push_str(&request.message);
        if !request.url.is_empty() {
            text.push_str(&format!("\nOpen {} and answer 'done'.", request.url));
        }
        for field in &request.fields {
            text.push_str(&format!("\n- {}", field.to_line()));
        }
    }
    let choices = match requests.as_slice() {
        [request] => match request.fields.as_slice() {
            [field] => field.kind.choices(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if several || requests.iter().any(|request| request.fields.len() > 1) {
        text.push_str("\nAnswer with a JSON object.");
    }
    (text, choices)
}

/// The responses of a person: the answer as JSON, or as plain text where one field is asked for; or a
/// refusal of all requests.
///
/// # Errors
/// What does not fit the question, in words for the person.
pub fn responses(requests: &str, settlement: &Settlement) -> Result<String, String> {
    let requests = parse(requests)?;
    let mut responses = Map::new();
    for request in &requests {
        let response = match settlement {
            Settlement::Deny { .. } => json!({"action": "decline"}),
            Settlement::Answer { text } => match request.fields.is_empty() {
                true => json!({"action": "accept"}),
                false => {
                    let content = request.content(text, requests.len() > 1)?;
                    json!({"action": "accept", "content": content})
                }
            },
            other => {
                return Err(format!(
                    "a question of a tool does not take {}",
                    other.verb()
                ));
            }
        };
        responses.insert(request.key.clone(), response);
    }
    Ok(Value::Object(responses).to_string())
}

fn parse(requests: &str) -> Result<Vec<Request>, String> {
    if requests.len() > MAX_INPUT_REQUEST {
        let bytes = requests.len();
        return Err(format!(
            "its question has {bytes} bytes; at most {MAX_INPUT_REQUEST} are allowed"
        ));
    }
    let Ok(Value::Object(requests)) = serde_json::from_str(requests) else {
        return Err("its question is no JSON object".to_owned());
    };
    if requests.is_empty() {
        return Err("its question is empty".to_owned());
    }
    let parsed = requests
        .into_iter()
        .map(|(key, request)| Request::parse(key, &request));
    parsed.collect()
}

impl Request {
    fn parse(key: String, request: &Value) -> Result<Self, String> {
        let method = request["method"].as_str().unwrap_or_default();
        if method != "elicitation/create" {
            let method = method.escape_debug();
            return Err(format!(
                "'{method}' is not asked of people; elicitation/create is"
            ));
        }
        let params = &request["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let schema = &params["requestedSchema"];
        let required: Vec<&str> = match schema["required"].as_array() {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let properties = schema["properties"].as_object();
        let field = |(name, schema): (&String, &Value)| {
            let name = name.clone();
            let kind = Kind::of(schema).ok_or_else(|| {
                let name = name.escape_debug();
                format!(
                    "the field '{name}' of its form is none of: text, number, yes or no, choice"
                )
            })?;
            Ok::<_, String>(Field {
                is_required: required.contains(&name.as_str()),
                kind,
                description: match text(&schema["description"]) {
                    description if description.is_empty() => text(&schema["title"]),
                    description => description,
                },
                name,
            })
        };
        let fields = properties.into_iter().flatten().map(field);
        Ok(Self {
            key,
            message: text(&params["message"]),
            fields: fields.collect::<Result<_, _>>()?,
            url: text(&params["url"]),
        })
    }

    /// The fields that an answer gives.
    fn content(&self, text: &str, by_key: bool) -> Result<Value, String> {
        let given: Option<Value> = serde_json::from_str(text).ok();
        let given = match (&given, by_key) {
            (Some(Value::Object(all)), true) => all.get(&self.key).cloned(),
            _ => given,
        };
        if let Some(Value::Object(given)) = given {
            return self.check(given);
        }
        match self.fields.as_slice() {
            [field] if !by_key => {
                let value = field.read(text)?;
                Ok(json!({ field.name.as_str(): value }))
            }
            fields => {
                let lines: Vec<_> = fields.iter().map(Field::to_line).collect();
                let lines = lines.join("; ");
                Err(format!("the answer must be a JSON object with: {lines}"))
            }
        }
    }

    fn check(&self, given: Map<String, Value>) -> Result<Value, String> {
        for (name, value) in &given {
            let Some(field) = self.fields.iter().find(|field| field.name == *name) else {
                let names: Vec<_> = self.fields.iter().map(|it| it.name.as_str()).collect();
                let name = name.escape_debug();
                return Err(format!(
                    "'{name}' is not asked for; allowed are {}",
                    names.join(", ")
                ));
            };
            if !field.kind.takes(value) {
                return Err(format!("'{name}' must be {}", field.kind.allowed()));
            }
        }
        let is_missing = |field: &&Field| field.is_required && !given.contains_key(&field.name);
        match self.fields.iter().find(is_missing) {
            Some(field) => Err(format!(
                "'{}' is missing: {}",
                field.name,
                field.kind.allowed()
            )),
            None => Ok(Value::Object(given)),
        }
    }
}

#[cfg(test)]
mod tests;
