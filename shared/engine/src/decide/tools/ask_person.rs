//! `ask_person`: a question of the model to a person.

use super::{Answers, CallRejection, StateTool, arguments, invalid};
use crate::event::QuestionAsked;
use crate::limits::{MAX_CHOICES, MAX_QUESTION};
use serde::Deserialize;

/// Its name.
pub(super) const ASK_PERSON: &str = "ask_person";

pub(super) const TOOL: StateTool = StateTool {
    name: ASK_PERSON,
    description: "Asks the person for whom this is done. Your work waits for the answer, which may take long: ask only what you cannot find out and cannot decide yourself.",
    parameters: r#"{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"},"description":"Answers to choose from, at most 10; the person may give another."}},"required":["question"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, call| {
        let Arguments { question, choices } = arguments(call)?;
        check(&question, &choices)?;
        decision.emit(QuestionAsked {
            call: name,
            question,
            choices,
        })?;
        // The call has no result until a person answers.
        Ok(None)
    }),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
    #[serde(default)]
    choices: Vec<String>,
}

fn check(question: &str, choices: &[String]) -> Result<(), CallRejection> {
    if question.trim().is_empty() {
        return Err(invalid("a question must not be empty"));
    }
    if choices.len() > MAX_CHOICES {
        let message = format!("a question has at most {MAX_CHOICES} choices");
        return Err(invalid(message));
    }
    let bytes = question.len() + choices.iter().map(String::len).sum::<usize>();
    if bytes > MAX_QUESTION {
        let message = format!("a question has at most {MAX_QUESTION} bytes, its choices included");
        return Err(invalid(message));
    }
    Ok(())
}
