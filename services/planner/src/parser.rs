//! From a text to a plan.
//!
//! A [`PlanParser`] reads a text into a draft, [`read_plan`] also checks that the draft can be
//! carried out. [`ProgramPlanParser`] has a program read texts of any other form. [`JsonPlanParser`] is the
//! reference:
//!
//! ```json
//! {"order": "graph", "steps": [
//!   {"id": "survey", "title": "Survey", "description": "List the files under docs."},
//!   {"id": "count", "tool": "search_files", "arguments": {"pattern": "TODO"}},
//!   {"description": "Write the report.", "depends_on": ["survey", "count"]}]}
//! ```
//!
//! Of a step only `description` is required, and not even that if it has a `tool`. A field that
//! is `null` counts as absent. Ids may be whole numbers. Steps in files may also have `external_id` and
//! `note`.

mod error;
mod find;
mod json;
mod program;

pub use error::PlanParseError;
pub use program::ProgramPlanParser;

use async_trait::async_trait;
use cairn_engine::plan::{Plan, PlanDraft};
use serde_json::{Map, Value};
use std::fmt;

/// Reads plans out of texts.
#[async_trait]
pub trait PlanParser: Send + Sync + fmt::Debug {
    /// Reads a text into a draft whose dependencies are not yet checked.
    ///
    /// # Errors
    /// What is wrong with the text, in words that help its author to mend it.
    async fn parse(&self, text: &str) -> Result<PlanDraft, PlanParseError>;
}

/// Reads a text into a draft that makes a [`Plan`].
///
/// # Errors
/// What is wrong with the text, or with the dependencies of the steps in it.
pub async fn read_plan(parser: &dyn PlanParser, text: &str) -> Result<PlanDraft, PlanParseError> {
    accepted(parser.parse(text).await?)
}

/// The same draft, if it makes a plan.
fn accepted(draft: PlanDraft) -> Result<PlanDraft, PlanParseError> {
    Plan::accept(&draft)?;
    Ok(draft)
}

/// Reads plans in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonPlanParser {
    strict: bool,
}

impl JsonPlanParser {
    /// For a model's answer: there may be prose or a code fence around the JSON, of several
    /// objects the last one with `steps` counts, and unknown fields are passed over.
    pub fn lenient() -> Self {
        Self { strict: false }
    }

    /// For a file: the text is one JSON object, and an unknown field is an error, because a
    /// misspelt `depends_on` would otherwise be lost in silence.
    pub fn strict() -> Self {
        Self { strict: true }
    }

    /// Reads a text into a draft that makes a [`Plan`], without waiting.
    ///
    /// # Errors
    /// As [`read_plan`].
    pub fn read(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        accepted(self.draft(text)?)
    }

    /// Reads a text into a draft whose dependencies are not yet checked, without waiting.
    ///
    /// # Errors
    /// As [`PlanParser::parse`].
    pub fn draft(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        let object: Map<String, Value> = if self.strict {
            match serde_json::from_str(text) {
                Ok(Value::Object(object)) => object,
                Ok(other) => {
                    return Err(PlanParseError::WrongType {
                        path: "the plan".to_owned(),
                        expected: "an object with 'steps'",
                        found: json::name_of_type(&other),
                    });
                }
                Err(error) => return Err(find::bad_json(text, 0, &error)),
            }
        } else {
            find::find_plan(text)?
        };
        json::to_draft(object, self.strict)
    }
}

#[async_trait]
impl PlanParser for JsonPlanParser {
    async fn parse(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        self.draft(text)
    }
}
