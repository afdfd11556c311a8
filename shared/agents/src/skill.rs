//! Skills: instructions that a model reads when it needs them, as the specification of Agent Skills has them.

use crate::document::{Document, Front};
use crate::fault::{AgentError, Parsed, quoted};
use crate::fields::{Fields, Vocabulary};
use crate::names::{ALLOWED, is_name, is_skill_name, of_folder};
use crate::yaml::{self, Value};
use crate::{metadata, tools};
use std::collections::BTreeMap;

/// Most bytes of a `SKILL.md`.
pub const MAX_SKILL: usize = 256 * 1024;
/// The file of a skill's folder that has its instructions.
pub const SKILL_FILE: &str = "SKILL.md";

/// Most characters of a description in the specification.
pub(crate) const SPECIFIED_DESCRIPTION: usize = 1024;
/// Most characters of `compatibility` in the specification.
const SPECIFIED_COMPATIBILITY: usize = 500;
/// Most lines of the text in the specification.
const SPECIFIED_LINES: usize = 500;
/// Most bytes of a field.
const MAX_TEXT: usize = 8 * 1024;

const VOCABULARY: Vocabulary = Vocabulary {
    whose: "a skill",
    known: &[
        "allowed-tools",
        "compatibility",
        "description",
        "disable-model-invocation",
        "license",
        "metadata",
        "name",
    ],
    shown: &[
        "argument-hint",
        "author",
        "tags",
        "user-invocable",
        "version",
    ],
    idle: &["agent", "context", "effort", "hooks", "model"],
};

/// A skill as its `SKILL.md` defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Its purpose, which models read before they read the rest.
    pub description: String,
    /// Its license.
    pub license: Option<String>,
    /// Its needs: programs, systems, network.
    pub compatibility: Option<String>,
    /// Notes for other programs. Values that are no text are as JSON.
    pub metadata: BTreeMap<String, String>,
    /// Tools that need no approval in other programs, in the file's words. They give no right here: rights
    /// come from the operator.
    pub allowed_tools: Vec<String>,
    /// Prompts list it.
    pub is_listed: bool,
    /// The instructions.
    pub body: String,
}

/// Reads a `SKILL.md`.
///
/// The folder of `path` gives the name. A file that exceeds a limit of the specification loads with a
/// warning, as it does in other programs.
///
/// # Errors
/// Every fault of the file, each with its line, its field, and the allowed values.
pub fn parse(path: &str, text: &str) -> Result<Parsed<SkillFile>, AgentError> {
    let one = |fault| AgentError::one(path, fault);
    let document = Document::of(text, MAX_SKILL).map_err(one)?;
    let (entries, warnings) = match &document.front {
        None => (Vec::new(), Vec::new()),
        Some(Front { source, before }) => {
            yaml::read(source, *before, &VOCABULARY.names()).map_err(one)?
        }
    };
    let mut fields = Fields::new("", entries);
    fields.found.warnings.extend(warnings);
    let skill = SkillFile {
        name: name(&mut fields, path),
        description: description(&mut fields),
        license: fields.text(&["license"], MAX_TEXT),
        compatibility: specified(&mut fields, "compatibility", SPECIFIED_COMPATIBILITY),
        metadata: metadata::read(&mut fields),
        allowed_tools: allowed_tools(&mut fields),
        is_listed: !fields
            .truth(&["disablemodelinvocation"])
            .unwrap_or_default(),
        body: body(&mut fields, document.body),
    };
    fields.finish(&VOCABULARY).finish(path, skill)
}

/// The name of the folder, which the field repeats.
fn name(fields: &mut Fields, path: &str) -> String {
    const SPECIFIED: &str = "the specification allows 1 to 64 of a-z, 0-9 and '-'";
    let folder = of_folder(path).unwrap_or_default();
    let entry = fields.take(&["name"]);
    let line = entry.as_ref().map_or(0, |entry| entry.line);
    if !is_name(folder) {
        let problem = format!("comes from the skill's folder, which is {}", quoted(folder));
        fields.found.error(line, "name", problem, ALLOWED);
    } else if !is_skill_name(folder) {
        let problem = format!("is {}, where {SPECIFIED}", quoted(folder));
        fields.found.warn(line, "name", problem);
    }
    match entry.as_ref().map(|entry| &entry.value) {
        Some(Value::Text(said)) if said == folder => {}
        None | Some(Value::Nothing) => {
            let problem = format!(
                "is missing: the skill has the name of its folder, {}",
                quoted(folder)
            );
            fields.found.warn(line, "name", problem);
        }
        Some(Value::Text(said)) => {
            let problem = format!(
                "is {}, and the skill has the name of its folder, {}",
                quoted(said),
                quoted(folder)
            );
            fields.found.warn(line, "name", problem);
        }
        Some(other) => {
            let problem = crate::fault::shown(other);
            fields
                .found
                .error(line, "name", problem, "the name of the skill's folder");
        }
    }
    folder.to_owned()
}

fn description(fields: &mut Fields) -> String {
    let errors = fields.found.errors.len();
    let description = specified(fields, "description", SPECIFIED_DESCRIPTION);
    if let Some(description) = description.filter(|text| !text.trim().is_empty()) {
        return description.trim().to_owned();
    }
    // A description of another type is an error already.
    if fields.found.errors.len() == errors {
        let allowed = "what the skill does and when it is of use";
        fields.found.error(0, "description", "is missing", allowed);
    }
    String::new()
}

/// A text for which the specification has a limit of characters.
fn specified(fields: &mut Fields, name: &'static str, most: usize) -> Option<String> {
    let text = fields.text(&[name], MAX_TEXT)?;
    let count = text.chars().count();
    if count > most {
        let problem = format!("has {count} characters, where the specification allows {most}");
        fields.found.warn(0, name, problem);
    }
    Some(text)
}

/// Names with blanks between them, as the specification has them, or a list.
fn allowed_tools(fields: &mut Fields) -> Vec<String> {
    let Some(entry) = fields.take(&["allowedtools"]) else {
        return Vec::new();
    };
    if matches!(entry.value, Value::Nothing) {
        return Vec::new();
    }
    let items = crate::fields::items(&entry, tools::split, &mut fields.found);
    items.into_iter().map(|item| item.text).collect()
}

fn body(fields: &mut Fields, body: String) -> String {
    let lines = body.lines().count();
    if lines == 0 {
        let problem = "has no text below the front matter: the skill has no instructions";
        fields.found.warn(0, "", problem);
    } else if lines >= SPECIFIED_LINES {
        let problem = format!(
            "has {lines} lines, where the specification wants fewer than {SPECIFIED_LINES}"
        );
        fields.found.warn(0, "", problem);
    }
    body
}
