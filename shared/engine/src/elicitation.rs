//! What a tool asks a person in the middle of a call: forms of the Model Context Protocol.
//!
//! A server sends requests by keys, as JSON, and gets responses by the same keys. Only
//! `elicitation/create` is answered by people; a server that asks for anything else asks in vain.

use crate::command::Settlement;
use crate::limits::MAX_INPUT_REQUEST;
use serde_json::{Map, Value, json};

/// One question of a tool.
#[derive(Debug)]
struct Request {
    key: String,
    message: String,
    /// The fields of its form; none for an address to open.
    fields: Vec<Field>,
    url: String,
}

#[derive(Debug)]
struct Field {
    name: String,
    kind: Kind,
    description: String,
    is_required: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    Number,
    Whole,
    Choice(Vec<Item>),
    Choices(Vec<Item>),
    Text,
}

/// What may be chosen.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    value: String,
    /// What a person sees; empty for the value.
    title: String,
}

/// Whether people can answer the requests.
///
/// # Errors
/// What they cannot answer.
pub fn check(requests: &str) -> Result<(), String> {
    parse(requests).map(|_| ())
}

/// The question of a tool in words, and the answers to choose from.
pub fn describe(tool: &str, requests: &str) -> (String, Vec<String>) {
    let (text, choices) = question(requests);
    (format!("tool '{tool}' asks:{text}"), choices)
}

/// The same without the tool, which begins with a space.
pub fn question(requests: &str) -> (String, Vec<String>) {
    let Ok(requests) = parse(requests) else {
        return (" something that cannot be shown".to_owned(), Vec::new());
    };
    let mut text = String::new();
    let several = requests.len() > 1;
    for request in &requests {
        let key = match several {
            true => format!(" {}:", request.key),
            false => String::new(),
        };
        text.push_str(&format!("{key} {}", request.message));
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

impl Field {
    fn to_line(&self) -> String {
        let optional = if self.is_required { "" } else { ", optional" };
        let line = format!("{}: {}{optional}", self.name, self.kind.allowed());
        match self.description.as_str() {
            "" => line,
            description => format!("{line} ({description})"),
        }
    }

    fn read(&self, text: &str) -> Result<Value, String> {
        let word = text.trim();
        let value = match &self.kind {
            Kind::Flag => match word.to_lowercase().as_str() {
                "true" | "yes" | "y" => Some(Value::Bool(true)),
                "false" | "no" | "n" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Number | Kind::Whole => serde_json::from_str(word).ok(),
            Kind::Choice(items) => items.iter().find(|item| item.is(word)).map(Item::value),
            Kind::Choices(items) => {
                let words = word
                    .split(',')
                    .map(str::trim)
                    .filter(|word| !word.is_empty());
                let chosen = words.map(|word| items.iter().find(|item| item.is(word)));
                chosen
                    .map(|item| item.map(Item::value))
                    .collect::<Option<Vec<_>>>()
                    .map(Value::Array)
                    .or_else(|| serde_json::from_str(word).ok())
            }
            Kind::Text => Some(Value::String(text.to_owned())),
        };
        let value = value.filter(|value| self.kind.takes(value));
        value.ok_or_else(|| format!("'{}' must be {}", self.name, self.kind.allowed()))
    }
}

impl Kind {
    /// None for what is no kind of a form.
    fn of(schema: &Value) -> Option<Self> {
        if let Some(items) = Item::all(schema) {
            return Some(Self::Choice(items));
        }
        Some(match schema["type"].as_str() {
            Some("boolean") => Self::Flag,
            Some("number") => Self::Number,
            Some("integer") => Self::Whole,
            Some("array") => Self::Choices(Item::all(&schema["items"])?),
            Some("string") => Self::Text,
            _ => return None,
        })
    }

    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Flag => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Whole => value.is_i64() || value.is_u64(),
            Self::Choice(items) => items.iter().any(|item| item.value() == *value),
            Self::Choices(items) => value.as_array().is_some_and(|values| {
                let is_item = |value: &Value| items.iter().any(|item| item.value() == *value);
                values.iter().all(is_item)
            }),
            Self::Text => value.is_string(),
        }
    }

    fn allowed(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Whole => "a whole number".to_owned(),
            Self::Choice(items) => format!("one of {}", Item::lines(items)),
            Self::Choices(items) => format!("any of {}, separated by commas", Item::lines(items)),
            Self::Text => "a text".to_owned(),
        }
    }

    fn choices(&self) -> Vec<String> {
        match self {
            Self::Flag => vec!["true".to_owned(), "false".to_owned()],
            Self::Choice(items) => items.iter().map(|item| item.value.clone()).collect(),
            Self::Number | Self::Whole | Self::Choices(_) | Self::Text => Vec::new(),
        }
    }
}

impl Item {
    /// What a schema lets one choose: values alone, values with a list of names, or values with titles.
    fn all(schema: &Value) -> Option<Vec<Self>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(values) = schema["enum"].as_array() {
            let items = values.iter().enumerate().map(|(at, value)| Self {
                value: text(value),
                title: text(&schema["enumNames"][at]),
            });
            return Some(items.collect());
        }
        let items = schema["oneOf"].as_array().or(schema["anyOf"].as_array())?;
        let items = items.iter().map(|item| {
            Some(Self {
                value: item["const"].as_str()?.to_owned(),
                title: text(&item["title"]),
            })
        });
        items.collect()
    }

    fn is(&self, word: &str) -> bool {
        self.value == word || (!self.title.is_empty() && self.title == word)
    }

    fn value(&self) -> Value {
        Value::String(self.value.clone())
    }

    fn lines(items: &[Self]) -> String {
        let line = |item: &Self| match item.title.as_str() {
            "" => item.value.clone(),
            title => format!("{} ({title})", item.value),
        };
        items.iter().map(line).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIRM: &str = r#"{"confirm": {"method": "elicitation/create", "params": {
        "message": "Deploy to prod?", "requestedSchema": {"type": "object",
        "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}}}}"#;
    const FORM: &str = r#"{"a": {"method": "elicitation/create", "params": {"message": "Who?",
        "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string", "description": "in full"},
        "size": {"type": "integer"}, "colour": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["name"]}}}}"#;

    fn answer(requests: &str, text: &str) -> Result<Value, String> {
        let settlement = Settlement::Answer {
            text: text.to_owned(),
        };
        let responses = responses(requests, &settlement)?;
        Ok(serde_json::from_str(&responses).expect("JSON"))
    }

    #[test]
    fn one_field_takes_plain_text() {
        let (question, choices) = describe("deploy", CONFIRM);
        assert_eq!(
            question,
            "tool 'deploy' asks: Deploy to prod?\n- confirm: true or false"
        );
        assert_eq!(choices, ["true", "false"]);
        let accepted = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
        for text in ["yes", "true", " Y ", r#"{"confirm": true}"#] {
            assert_eq!(answer(CONFIRM, text).as_ref(), Ok(&accepted), "{text}");
        }
        let refused = answer(CONFIRM, "perhaps");
        assert_eq!(refused, Err("'confirm' must be true or false".to_owned()));
    }

    #[test]
    fn a_form_takes_an_object_that_fits() {
        let content = json!({"name": "x", "size": 3, "colour": "red"});
        let expected = json!({"a": {"action": "accept", "content": content}});
        assert_eq!(answer(FORM, &content.to_string()), Ok(expected));
        for (text, problem) in [
            (r#"{"size": 3}"#, "'name' is missing: a text"),
            (r#"{"name": 3}"#, "'name' must be a text"),
            (
                r#"{"name": "x", "size": 1.5}"#,
                "'size' must be a whole number",
            ),
            (
                r#"{"name": "x", "colour": "green"}"#,
                "'colour' must be one of red, blue",
            ),
            (
                r#"{"name": "x", "other": 1}"#,
                "'other' is not asked for; allowed are name, size, colour",
            ),
        ] {
            assert_eq!(answer(FORM, text), Err(problem.to_owned()), "{text}");
        }
        let plain = answer(FORM, "x").expect_err("three fields");
        assert!(plain.contains("name: a text (in full)"), "{plain}");
    }

    #[test]
    fn choices_have_titles_and_may_be_several() {
        let form = |schema: Value| {
            json!({"a": {"method": "elicitation/create", "params": {"message": "Which?",
                "requestedSchema": {"type": "object", "properties": {"of": schema}}}}})
            .to_string()
        };
        let content = |value: Value| json!({"a": {"action": "accept", "content": {"of": value}}});
        let titled = json!([{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]);
        let one = form(json!({"type": "string", "oneOf": titled}));
        let (question, choices) = describe("t", &one);
        assert!(question.contains("one of r (Red), b (Blue)"), "{question}");
        assert_eq!(choices, ["r", "b"]);
        for text in ["r", "Red", r#"{"of": "r"}"#] {
            assert_eq!(answer(&one, text), Ok(content(json!("r"))), "{text}");
        }
        for items in [json!({"anyOf": titled}), json!({"enum": ["r", "b"]})] {
            let several = form(json!({"type": "array", "items": items}));
            for text in ["r, b", r#"["r", "b"]"#, r#"{"of": ["r", "b"]}"#] {
                assert_eq!(
                    answer(&several, text),
                    Ok(content(json!(["r", "b"]))),
                    "{text}"
                );
            }
            assert!(answer(&several, "r, g").is_err());
        }
        let named = form(json!({"type": "string", "enum": ["r"], "enumNames": ["Red"]}));
        assert_eq!(answer(&named, "Red"), Ok(content(json!("r"))));
        for schema in [
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({}),
        ] {
            let problem = check(&form(schema)).expect_err("no kind of a form");
            assert!(problem.contains("the field 'of'"), "{problem}");
        }
    }

    #[test]
    fn a_refusal_declines_every_request() {
        let settlement = Settlement::Deny {
            reason: String::new(),
        };
        let responses = responses(CONFIRM, &settlement).expect("it fits");
        assert_eq!(responses, r#"{"confirm":{"action":"decline"}}"#);
    }

    #[test]
    fn what_people_cannot_answer_is_refused() {
        for requests in [
            "",
            "[]",
            "{}",
            r#"{"a": {"method": "sampling/createMessage", "params": {}}}"#,
            r#"{"a": 1}"#,
        ] {
            assert!(check(requests).is_err(), "{requests}");
        }
        let long = " ".repeat(MAX_INPUT_REQUEST + 1);
        assert!(check(&long).is_err());
    }
}
