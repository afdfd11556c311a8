//! The fields of a form: what they take, and how a person's words become their values.

use serde_json::Value;

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) description: String,
    pub(super) is_required: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Number,
    Whole,
    Choice(Vec<Item>),
    Choices(Vec<Item>),
    Text,
}

/// What may be chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    value: String,
    /// What a person sees; empty for the value.
    title: String,
}

impl Field {
    pub(super) fn to_line(&self) -> String {
        let optional = if self.is_required { "" } else { ", optional" };
        let line = format!("{}: {}{optional}", self.name, self.kind.allowed());
        match self.description.as_str() {
            "" => line,
            description => format!("{line} ({description})"),
        }
    }

    pub(super) fn read(&self, text: &str) -> Result<Value, String> {
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
    pub(super) fn of(schema: &Value) -> Option<Self> {
        if ["enum", "oneOf", "anyOf"]
            .iter()
            .any(|it| !schema[it].is_null())
        {
            return Item::all(schema).map(Self::Choice);
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

    pub(super) fn takes(&self, value: &Value) -> bool {
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

    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Whole => "a whole number".to_owned(),
            Self::Choice(items) => format!("one of {}", Item::lines(items)),
            Self::Choices(items) => format!("any of {}, separated by commas", Item::lines(items)),
            Self::Text => "a text".to_owned(),
        }
    }

    pub(super) fn choices(&self) -> Vec<String> {
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
            let items = values.iter().enumerate().map(|(at, value)| {
                Some(Self {
                    value: value.as_str()?.to_owned(),
                    title: text(&schema["enumNames"][at]),
                })
            });
            return items
                .collect::<Option<Vec<_>>>()
                .filter(|it| !it.is_empty());
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
