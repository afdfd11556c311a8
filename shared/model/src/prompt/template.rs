//! Templates with variables and conditions.

use super::PromptError;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value, filters, tests as jinja_tests};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

// What `{` and `}` around a name are turned into, so that no brace of a prompt's text can ever be
// taken for a delimiter. Private use characters have no meaning in any text.
const OPEN: &str = "\u{f8f0}";
const CLOSE: &str = "\u{f8f1}";
// Comments cannot be switched off, only given a mark that nobody writes.
const COMMENT: &str = "\u{f8f2}";
// The last one stands for a number in the prompt for a summary.
const MARKS: [char; 4] = ['\u{f8f0}', '\u{f8f1}', '\u{f8f2}', '\u{f8f3}'];

/// Instructions that one rendering may take: loops over large values end there.
const FUEL: u64 = 1_000_000;
/// Most bytes of a rendered text.
const MAX_RENDERED: usize = 1024 * 1024;

static JINJA: LazyLock<Environment<'static>> = LazyLock::new(environment);

/// A text with variables and conditions. See the module above for what it may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate {
    name: String,
    text: String,
}

impl PromptTemplate {
    /// A template; its text is checked when it is rendered, or by [`PromptTemplate::check`].
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// The name, which errors show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text before rendering.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text can be read.
    ///
    /// # Errors
    /// [`PromptError::Syntax`].
    pub fn check(&self) -> Result<(), PromptError> {
        let source = self.translate()?;
        let parsed = JINJA.template_from_named_str(&self.name, &source);
        parsed.map(drop).map_err(|error| self.explain(&error))
    }

    /// The variables that the text uses, without their fields, sorted. Empty if the text cannot be read.
    pub fn variables(&self) -> Vec<String> {
        let Ok(source) = self.translate() else {
            return Vec::new();
        };
        let parsed = JINJA.template_from_named_str(&self.name, &source);
        let used = parsed.map(|template| template.undeclared_variables(false));
        let mut used: Vec<String> = used.unwrap_or_default().into_iter().collect();
        used.sort();
        used
    }

    /// The text with its variables replaced.
    ///
    /// # Errors
    /// [`PromptError::MissingVariable`] names the first variable that is used and not set;
    /// [`PromptError::Syntax`] and [`PromptError::Render`] name the line.
    pub fn render(&self, context: &TemplateContext) -> Result<String, PromptError> {
        let source = self.translate()?;
        let values = Value::from_pairs(context.values.clone());
        let rendered = JINJA.render_named_str(&self.name, &source, values);
        let text = rendered.map_err(|error| self.explain(&error))?;
        match text.len() {
            ..=MAX_RENDERED => Ok(text),
            bytes => Err(PromptError::Render {
                template: self.name.clone(),
                line: 1,
                message: format!("the text has {bytes} bytes; at most {MAX_RENDERED} are allowed"),
            }),
        }
    }

    /// The text in the syntax of the engine: marks in place of the braces around names.
    fn translate(&self) -> Result<String, PromptError> {
        if let Some(at) = self.text.find(MARKS) {
            return Err(PromptError::Syntax {
                template: self.name.clone(),
                line: self.text[..at].matches('\n').count() + 1,
                message: "U+F8F0 to U+F8F3 may not be used".to_owned(),
            });
        }
        let mut source = String::with_capacity(self.text.len());
        let mut rest = self.text.as_str();
        while let Some(at) = rest.find('{') {
            source.push_str(&rest[..at]);
            rest = &rest[at..];
            let taken = if let Some(length) = tag_length(rest) {
                source.push_str(&rest[..length]);
                length
            } else if let Some(name) = name_within(rest, "{{{", "}}}") {
                source.extend(["{", OPEN, name, CLOSE, "}"]);
                name.len() + 6
            } else if let Some(name) = name_within(rest, "{{", "}}") {
                source.extend(["{", name, "}"]);
                name.len() + 4
            } else if let Some(name) = name_within(rest, "{", "}") {
                source.extend([OPEN, name, CLOSE]);
                name.len() + 2
            } else {
                source.push('{');
                1
            };
            rest = &rest[taken..];
        }
        source.push_str(rest);
        Ok(source)
    }

    fn explain(&self, error: &minijinja::Error) -> PromptError {
        let template = self.name.clone();
        let line = error.line().unwrap_or(1);
        let said = error
            .detail()
            .map_or_else(|| error.kind().to_string(), str::to_owned);
        let message = said.replace(MARKS, "");
        match error.kind() {
            ErrorKind::UndefinedError => PromptError::MissingVariable {
                // The engine says "`name` is undefined".
                variable: message.split('`').nth(1).unwrap_or(&message).to_owned(),
                template,
                line,
            },
            ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownTest => {
                PromptError::Syntax {
                    template,
                    line,
                    message,
                }
            }
            _ => PromptError::Render {
                template,
                line,
                message,
            },
        }
    }
}

/// The bytes of the tag that the text begins with; of `raw`, all up to and with its end.
fn tag_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("{%")?;
    let end = inner.find("%}")?;
    let tag = inner[..end].trim_matches(|character: char| "+-".contains(character));
    let length = "{%".len() + end + "%}".len();
    if tag.trim() != "raw" {
        return Some(length);
    }
    let mut ends = text[length..].match_indices("endraw");
    let end = ends.find_map(|(at, _)| {
        let after = &text[length + at..];
        let close = after.find("%}")?;
        Some(length + at + close + "%}".len())
    });
    Some(end.unwrap_or(text.len()))
}

/// The name that the text begins with, in these braces: letters, digits and underscores, with
/// points between them.
fn name_within<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (name, _) = text.strip_prefix(open)?.split_once(close)?;
    name.split('.').all(is_variable).then_some(name)
}

/// Whether a variable, or a field of one, can have the name: letters of ASCII, digits and underscores, of which the
/// first is no digit.
pub fn is_variable(name: &str) -> bool {
    let mut characters = name.chars();
    let first = characters.next();
    first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

fn environment() -> Environment<'static> {
    let mut jinja = Environment::empty();
    let mut syntax = SyntaxConfig::builder();
    let configured = syntax
        .variable_delimiters(OPEN, CLOSE)
        .comment_delimiters(COMMENT, COMMENT)
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    // The marks differ, which is all that is asked of them.
    jinja.set_syntax(configured.unwrap_or_default());
    jinja.set_undefined_behavior(UndefinedBehavior::Strict);
    // In debug mode the engine remembers which variable was undefined.
    jinja.set_debug(true);
    jinja.set_fuel(Some(FUEL));
    jinja.add_test("defined", jinja_tests::is_defined);
    jinja.add_test("undefined", jinja_tests::is_undefined);
    jinja.add_test("none", jinja_tests::is_none);
    jinja.add_filter("default", filters::default);
    jinja.add_filter("join", filters::join);
    jinja.add_filter("length", filters::length);
    jinja.add_filter("lower", filters::lower);
    jinja.add_filter("trim", filters::trim);
    jinja.add_filter("upper", filters::upper);
    jinja
}

/// The values of variables.
#[derive(Clone, Default)]
pub struct TemplateContext {
    values: BTreeMap<String, Value>,
}

/// Without the values, which an operator may keep secret.
impl fmt::Debug for TemplateContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl TemplateContext {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable: a text, a number, a list, or anything with fields.
    pub fn set(&mut self, name: impl Into<String>, value: impl Serialize) {
        // To any other serializer, a number of JSON is a struct.
        let value = match serde_json::to_value(&value) {
            Ok(json) => of_json(json),
            Err(_) => Value::from(Serde(value)),
        };
        self.values.insert(name.into(), value);
    }

    /// As [`TemplateContext::set`], in a chain.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.set(name, value);
        self
    }
}

impl<K: Into<String>, V: Serialize, const N: usize> From<[(K, V); N]> for TemplateContext {
    fn from(values: [(K, V); N]) -> Self {
        let pairs = values.into_iter();
        pairs.fold(Self::new(), |context, (name, value)| {
            context.with(name, value)
        })
    }
}

fn of_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => Value::from(flag),
        serde_json::Value::Number(number) => of_number(&number),
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(items) => items.into_iter().map(of_json).collect(),
        serde_json::Value::Object(fields) => {
            Value::from_pairs(fields.into_iter().map(|(name, json)| (name, of_json(json))))
        }
    }
}

/// A number that the engine would spell in another way is a text.
fn of_number(number: &serde_json::Number) -> Value {
    let text = number.to_string();
    let float = number.as_f64().filter(|float| float.to_string() == text);
    match (number.as_u64(), number.as_i64(), float) {
        (Some(number), _, _) => Value::from(number),
        (None, Some(number), _) => Value::from(number),
        (None, None, Some(number)) => Value::from(number),
        (None, None, None) => Value::from(text),
    }
}

/// Templates by name.
#[derive(Debug, Clone, Default)]
pub struct PromptTemplateRegistry {
    templates: BTreeMap<String, PromptTemplate>,
}

impl PromptTemplateRegistry {
    /// A registry without templates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a template, in the place of the one that had its name.
    pub fn register(&mut self, template: PromptTemplate) {
        self.templates.insert(template.name.clone(), template);
    }

    /// The template of this name.
    ///
    /// # Errors
    /// [`PromptError::Unknown`], which lists the names that are known.
    pub fn get(&self, name: &str) -> Result<&PromptTemplate, PromptError> {
        let found = self.templates.get(name);
        found.ok_or_else(|| PromptError::unknown(name, self.templates.keys()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(text: &str, context: &TemplateContext) -> Result<String, PromptError> {
        PromptTemplate::new("t", text).render(context)
    }

    fn rendered(text: &str, context: &TemplateContext) -> String {
        render(text, context).expect("renders")
    }

    #[test]
    fn variables_are_replaced() {
        let mut registry = PromptTemplateRegistry::new();
        let text = "In {location}: {condition}, {temperature}";
        registry.register(PromptTemplate::new("weather", text));
        let context = TemplateContext::from([
            ("location", "Peking"),
            ("condition", "sunny"),
            ("temperature", "25°C"),
        ]);
        let template = registry.get("weather").expect("registered");
        assert_eq!(
            template.render(&context).expect("renders"),
            "In Peking: sunny, 25°C"
        );
        let user = TemplateContext::new().with("user", json!({"name": "Ada", "age": 36}));
        assert_eq!(rendered("{user.name} ({user.age})", &user), "Ada (36)");
        let numbers = json!([36, -1, 0.5, u64::MAX]);
        let text = "{% for number in numbers %}{number} {% endfor %}";
        let of = |numbers: &serde_json::Value| TemplateContext::new().with("numbers", numbers);
        assert_eq!(
            rendered(text, &of(&numbers)),
            "36 -1 0.5 18446744073709551615 "
        );
        let large = serde_json::from_str("[1000000000000000000001]").expect("JSON");
        assert_eq!(rendered(text, &of(&large)), "1000000000000000000001 ");
    }

    #[test]
    fn only_names_in_braces_are_variables() {
        let context = TemplateContext::from([("name", "N")]);
        let json = r#"{"steps": [{"id": 1, "d": {}}], "x": { name }} {1} {a b} {} {é} { {name}{ }"#;
        assert_eq!(rendered(json, &context), json.replace("{name}", "N"));
        assert_eq!(rendered("{{name}} {name}", &context), "{name} N");
        assert_eq!(rendered("{{{name}}} {{{name}}", &context), "{N} {{name}");
        assert_eq!(
            rendered("{# name #} {{ x }} {% raw %}{name}{% endraw %}", &context),
            "{# name #} {{ x }} {name}"
        );
    }

    #[test]
    fn values_are_inserted_as_they_are() {
        let value = "{name} {% if x %} <b> & \"q\" {{ 1 }}\n";
        let context = TemplateContext::from([("value", value)]);
        assert_eq!(rendered("{value}", &context), value);
        let page = PromptTemplate::new("page.html", "{value}");
        assert_eq!(page.render(&context).expect("renders"), value);
    }

    #[test]
    fn conditions_and_loops_take_their_lines_with_them() {
        let text = "A\n{% if files is defined %}\n{% for file in files %}\n- {file}\n{% endfor %}\n{% else %}\nnone\n{% endif %}\nB\n";
        let some = TemplateContext::new().with("files", ["a.md", "b.md"]);
        assert_eq!(rendered(text, &some), "A\n- a.md\n- b.md\nB\n");
        assert_eq!(rendered(text, &TemplateContext::new()), "A\nnone\nB\n");
        let joined = "{% set list = files | join(\", \") %}{list}";
        assert_eq!(rendered(joined, &some), "a.md, b.md");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let context = TemplateContext::new().with("user", json!({"name": "Ada"}));
        let cases = [
            ("{greeting}", "greeting", 1),
            ("one\n{% if urgent %}!{% endif %}", "urgent", 2),
            ("{% for file in files %}{file}{% endfor %}", "files", 1),
            ("{user.name}\n\n{user.name} {user.age}", "user.age", 3),
            ("{\n  \"name\": {person.name}\n}", "person", 2),
        ];
        for (text, variable, line) in cases {
            let expected = PromptError::MissingVariable {
                template: "t".to_owned(),
                variable: variable.to_owned(),
                line,
            };
            assert_eq!(render(text, &context), Err(expected), "{text}");
        }
        assert_eq!(rendered("{% if false %}{never}{% endif %}x", &context), "x");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let nothing = TemplateContext::new();
        let line = |text: &str| match PromptTemplate::new("t", text).check() {
            Err(PromptError::Syntax { line, .. }) => line,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(line("a\n{% if x %}\nb"), 3);
        assert_eq!(line("a\n{% nonsense %}"), 2);
        assert_eq!(line("a\nb \u{f8f0}"), 2);
        assert_eq!(line("a\n\u{f8f0}"), 2);
        assert_eq!(line("{% raw %} without an end"), 1);
        assert!(render("{% set x = 1 | nonsense %}", &nothing).is_err());
        assert!(
            PromptTemplate::new("t", "{a} {% if b %}{% endif %}")
                .check()
                .is_ok()
        );
    }

    #[test]
    fn the_variables_of_a_text_are_those_that_it_does_not_set() {
        let of = |text: &str| PromptTemplate::new("t", text).variables();
        let text = "{b} {user.name} {% if a is defined %}{% endif %}{% for file in files %}{file}{% endfor %}\
                    {% set own = b %}{own} {{escaped}} {\"json\": 1}";
        assert_eq!(of(text), ["a", "b", "files", "user"]);
        assert_eq!(of("{% if %}"), [""; 0]);
        assert_eq!(of("no variable"), [""; 0]);
    }

    #[test]
    fn a_text_without_measure_is_refused() {
        let long = TemplateContext::from([("long", "x".repeat(MAX_RENDERED / 2 + 1))]);
        assert!(render("{long}", &long).is_ok());
        let error = render("{long}{long}", &long).expect_err("too long");
        assert!(error.to_string().contains("at most 1048576"), "{error}");
    }

    #[test]
    fn values_are_in_no_log() {
        let context = TemplateContext::from([("key", "canary")]);
        assert_eq!(format!("{context:?}"), "{\"key\"}");
    }

    #[test]
    fn a_loop_without_measure_ends() {
        let many = TemplateContext::new().with("list", vec![0; 2_000]);
        let text = "{% for a in list %}{% for b in list %}{% for c in list %}{% endfor %}{% endfor %}{% endfor %}";
        let error = render(text, &many).expect_err("too much");
        assert!(matches!(error, PromptError::Render { .. }), "{error:?}");
    }
}
