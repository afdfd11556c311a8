//! `read_skill`: the instructions of a skill, or another file of its folder.

use super::{Answers, CallRefusal, CallRejection, Question, StateTool, arguments, invalid};
use crate::decide::Rejection;
use crate::event::CallRef;
use crate::limits::MAX_QUESTION;
use crate::message::ToolCall;
use crate::session::Session;
use crate::text::cut;
use serde::Deserialize;

/// Skills that an error names.
const MOST_NAMED: usize = 30;
/// Characters of a name that an error shows.
const MOST_SHOWN: usize = 64;

pub(super) const TOOL: StateTool = StateTool {
    name: "read_skill",
    description: "Reads the instructions of a skill, or another file of its folder. The system prompt lists the skills and what each is for.",
    parameters: r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the skill, as the list has it."},"file":{"type":"string","description":"Path of a file in the folder of the skill, such as 'scripts/check.sh'; the instructions by default."}},"required":["name"],"additionalProperties":false}"#,
    answers: Answers::ByOwner(read),
};

/// What a model wants to read of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRequest {
    /// Name of the skill.
    pub skill: String,
    /// Path of a file in the folder of the skill; empty for its instructions.
    pub file: String,
    /// Digest of the folder when the agent was defined. A folder with another digest is not read.
    pub digest: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    name: String,
    file: Option<String>,
}

fn read(session: &Session, at: CallRef, call: &ToolCall) -> Result<Question, CallRejection> {
    let Arguments { name, file } = arguments(call)?;
    let file = file.unwrap_or_default();
    if file.len() > MAX_QUESTION || file.contains('\0') {
        let message = format!("file is a path of at most {MAX_QUESTION} bytes");
        return Err(invalid(message));
    }
    let agent = session.agent_of(at.attempt);
    let skills = agent.map(|agent| agent.definition.skills.as_slice());
    let skills = skills.unwrap_or_default();
    match skills.iter().find(|skill| skill.name == name) {
        Some(skill) => Ok(Question::ReadSkill(SkillRequest {
            skill: name,
            file,
            digest: skill.digest.clone(),
        })),
        None => Err(unknown(
            &name,
            skills.iter().map(|skill| skill.name.as_str()),
        )),
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> CallRejection {
    let name = cut(name, MOST_SHOWN);
    let known: Vec<&str> = known.take(MOST_NAMED).collect();
    let message = format!(
        "there is no skill '{name}'; there are: {}",
        known.join(", ")
    );
    Rejection::refused(CallRefusal::NotFound, message)
}
