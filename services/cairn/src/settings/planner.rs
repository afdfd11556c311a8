//! `[planner]`: what reads the plans of models.

use cairn_boot::Checks;
use cairn_planner::{JsonPlanParser, PlanParser, ProgramPlanParser};
use cairn_supervise::Supervisor;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The parser of Cairn's own.
const JSON: &str = "json";
const ALLOWED: &str =
    "\"json\", or a program with its arguments such as [\"python3\", \"parse.py\"]";

/// What reads the plans of models.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannerSettings {
    /// The parser: `json`, or a program.
    pub parser: ParserSetting,
    /// How long a program may take for one plan.
    #[serde(with = "cairn_boot::config::duration")]
    pub parser_timeout: Duration,
}

/// The parser of plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ParserSetting {
    /// Reads JSON, also with prose around it.
    #[default]
    Json,
    /// Program and arguments, which are not read by a shell. The program runs in the workspace, with all rights of
    /// Cairn's own process.
    Program(Vec<String>),
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            parser: ParserSetting::default(),
            parser_timeout: Duration::from_secs(30),
        }
    }
}

impl PlannerSettings {
    /// As a planner takes it. `path` is the variable `PATH` of this process.
    pub(super) fn parser(
        &self,
        workspace: &Path,
        path: Option<&str>,
        supervisor: Supervisor,
    ) -> Arc<dyn PlanParser> {
        let ParserSetting::Program(argv) = &self.parser else {
            return Arc::new(JsonPlanParser::lenient());
        };
        let parser =
            ProgramPlanParser::new(argv.clone(), workspace.to_owned(), self.parser_timeout);
        let parser = parser.supervised(supervisor);
        Arc::new(match path {
            Some(path) => parser.with_path(path),
            None => parser,
        })
    }

    pub(super) fn check(&self, checks: &mut Checks) {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(600));
        checks.range("planner.parser_timeout", self.parser_timeout, least..=most);
    }
}

impl Serialize for ParserSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Json => serializer.serialize_str(JSON),
            Self::Program(argv) => argv.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ParserSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads what settings write: a word, or a list.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = ParserSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ParserSetting, E> {
        match text {
            JSON => Ok(ParserSetting::Json),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ParserSetting, A::Error> {
        let mut argv: Vec<String> = Vec::new();
        while let Some(word) = items.next_element()? {
            argv.push(word);
        }
        let has_program = argv.first().is_some_and(|program| !program.is_empty());
        match has_program && !argv.iter().any(|word| word.contains('\0')) {
            true => Ok(ParserSetting::Program(argv)),
            false => Err(A::Error::invalid_value(Unexpected::Seq, &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_parser_is_a_word_or_a_program() {
        let read = serde_json::from_value::<ParserSetting>;
        assert_eq!(read(json!("json")).unwrap(), ParserSetting::Json);
        let program = json!(["python3", "parse.py", ""]);
        let parser = read(program.clone()).unwrap();
        let words = ["python3", "parse.py", ""].map(str::to_owned);
        assert_eq!(parser, ParserSetting::Program(words.into()));
        assert_eq!(serde_json::to_value(parser).unwrap(), program);
        for wrong in [
            json!([]),
            json!([""]),
            json!(["a", "b\0"]),
            json!("python3 parse.py"),
            json!(true),
        ] {
            let error = read(wrong.clone()).unwrap_err().to_string();
            assert!(error.contains("\"json\", or a program"), "{wrong}: {error}");
        }
    }
}
