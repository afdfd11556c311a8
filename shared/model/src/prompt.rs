//! Prompts: the built-in ones, templates, and putting messages together.
//!
//! The built-in prompts are Markdown files in `prompts/`, compiled in. Those without variables are
//! used as they are, so that they stay byte for byte the same and providers' caches hit. [`Prompts`] has
//! all prompts of a process: these, and those of an operator's files in their places.
//!
//! # Templates
//!
//! `{name}` is replaced by the variable of that name, `{user.name}` by a field of it. Only a name
//! in braces is a variable: every other brace is just itself, so that JSON can stand in a prompt
//! as it is. To write `{name}` itself, double the braces: `{{name}}`; `{{{name}}}` is the value in
//! braces.
//!
//! `{% if files %} … {% elif … %} … {% else %} … {% endif %}`, `{% for file in files %} … {% endfor
//! %}`, `{% set … %}` and `{% raw %} … {% endraw %}` are as in Jinja; a tag alone on its line takes
//! the line away with it. Tests: `defined`, `undefined`, `none`. Filters, in tags only: `default`,
//! `join`, `length`, `lower`, `trim`, `upper`. There are no comments and no includes.
//!
//! A variable that is used and not set is an error that names it, also in a condition; write
//! `{% if files is defined %}` for one that may be absent. Values are inserted as they are: what
//! looks like a variable in a value is not replaced.

mod composer;
mod registry;
mod template;

pub use cairn_engine::decide::{CONVERSATION, EXECUTION, GUIDE, SUMMARY};
pub use composer::PromptComposer;
pub use registry::{Prompt, PromptSource, Prompts, is_built_in, variable_of};
pub use template::{PromptTemplate, PromptTemplateRegistry, TemplateContext, is_variable};

use cairn_engine::failure::{Failure, FailureKind};

/// System prompt for making a plan. No variables.
pub const PLANNING: &str = include_str!("../prompts/planning.md");
/// What a model is told whose plan could not be read; a template with the variable `problem`.
pub const PLAN_REPAIR: &str = include_str!("../prompts/plan_repair.md");
/// System prompt for writing files. No variables.
pub const CODE_GENERATION: &str = include_str!("../prompts/code_generation.md");
/// What a model is told whose files could not be read; a template with the variable `problem`.
pub const CODE_REPAIR: &str = include_str!("../prompts/code_repair.md");
/// The line before the paths of the files that a model is to write.
const PATHS: &str = "Write these files and no others:";

/// The built-in prompts by name.
pub fn builtin() -> PromptTemplateRegistry {
    let mut registry = PromptTemplateRegistry::new();
    for prompt in Prompts::default().all() {
        registry.register(prompt.template().clone());
    }
    registry
}

/// The message that asks a model for files: the task, and their paths if it is not to choose them.
pub fn code_request(task: &str, paths: &[String]) -> String {
    match paths {
        [] => task.to_owned(),
        paths => format!("{task}\n\n{PATHS}\n- {}", paths.join("\n- ")),
    }
}

/// The task and the paths of a [`code_request`].
pub(crate) fn read_code_request(request: &str) -> (&str, Vec<&str>) {
    match request.rsplit_once(&format!("\n\n{PATHS}\n- ")) {
        Some((task, paths)) => (task, paths.split("\n- ").collect()),
        None => (request, Vec::new()),
    }
}

/// What is wrong with a template or its use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A variable is used and not set.
    #[error(
        "the prompt {template:?} needs the variable {variable:?} at line {line}, which is not set"
    )]
    MissingVariable {
        /// The template.
        template: String,
        /// The variable, with its path if it is a field.
        variable: String,
        /// Line, from 1.
        line: usize,
    },
    /// The template cannot be read.
    #[error("the prompt {template:?} is wrong at line {line}: {message}")]
    Syntax {
        /// The template.
        template: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template can be read, but not with these values.
    #[error("the prompt {template:?} cannot be rendered at line {line}: {message}")]
    Render {
        /// The template.
        template: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// No template has this name.
    #[error("unknown prompt {name:?}, known are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
}

impl PromptError {
    fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n String>) -> Self {
        let known: Vec<_> = known.map(String::as_str).collect();
        Self::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    }

    /// The line that has the fault; none without such a template.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::MissingVariable { line, .. }
            | Self::Syntax { line, .. }
            | Self::Render { line, .. } => Some(*line),
            Self::Unknown { .. } => None,
        }
    }

    /// The variable that is not set, if that is the fault.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::MissingVariable { variable, .. } => Some(variable),
            Self::Syntax { .. } | Self::Render { .. } | Self::Unknown { .. } => None,
        }
    }

    /// The template, or the name that no template has.
    pub fn template(&self) -> &str {
        match self {
            Self::MissingVariable { template, .. }
            | Self::Syntax { template, .. }
            | Self::Render { template, .. } => template,
            Self::Unknown { name, .. } => name,
        }
    }
}

impl From<PromptError> for Failure {
    fn from(error: PromptError) -> Self {
        let reason = match &error {
            PromptError::MissingVariable { .. } => "missing_variable",
            PromptError::Syntax { .. } => "prompt_syntax",
            PromptError::Render { .. } => "prompt_render",
            PromptError::Unknown { .. } => "unknown_prompt",
        };
        Self::new(FailureKind::Config, reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_without_variables_render_to_themselves() {
        let registry = builtin();
        let nothing = TemplateContext::new();
        for (name, text) in [
            ("planning", PLANNING),
            ("execution", EXECUTION),
            ("guide", GUIDE),
            ("conversation", CONVERSATION),
            ("code_generation", CODE_GENERATION),
        ] {
            let template = registry.get(name).expect("built in");
            assert_eq!(template.render(&nothing).expect("no variables"), text);
        }
    }

    #[test]
    fn the_repair_prompt_says_what_was_wrong() {
        let prompts = Prompts::default();
        let repair = prompts.plan_repair("step 2 lacks 'description' {here}");
        let text = repair.expect("renders");
        assert!(text.contains("step 2 lacks 'description' {here}"), "{text}");
        let missing = builtin()
            .get("plan_repair")
            .and_then(|template| template.render(&TemplateContext::new()))
            .expect_err("no problem is given");
        assert!(missing.to_string().contains("\"problem\""), "{missing}");
    }

    #[test]
    fn a_request_for_files_is_read_as_it_was_written() {
        let task = "Add two numbers.\n\n- in Python";
        let paths = ["a.py", "src/b c.py"].map(str::to_owned);
        for paths in [&paths[..], &paths[..1], &[]] {
            let request = code_request(task, paths);
            let (read, named) = read_code_request(&request);
            assert_eq!((read, named.len()), (task, paths.len()));
            assert!(named.iter().eq(paths));
        }
        let repair = Prompts::default().code_repair("has the path \"/x\"");
        let repair = repair.expect("renders");
        assert!(repair.contains("it has the path \"/x\""), "{repair}");
    }

    #[test]
    fn the_files_that_the_prompt_for_code_shows_are_json() {
        let example = CODE_GENERATION.split("```json\n").nth(1);
        let example = example.and_then(|rest| rest.split("```").next());
        let shown: serde_json::Value =
            serde_json::from_str(example.expect("an example")).expect("valid JSON");
        assert!(shown["files"][0]["path"].is_string() && shown["files"][0]["text"].is_string());
    }

    #[test]
    fn the_plans_that_the_planning_prompt_shows_are_json() {
        let blocks = PLANNING.split("```json\n").skip(1);
        let plans: Vec<serde_json::Value> = blocks
            .filter_map(|block| block.split("```").next())
            .map(|plan| serde_json::from_str(plan).expect("valid JSON"))
            .collect();
        assert!(!plans.is_empty());
        for plan in plans {
            let steps = plan["steps"].as_array().expect("steps");
            let whole = |step: &serde_json::Value| {
                step["description"].is_string()
                    && (step["tool"].is_null() || step["arguments"].is_object())
            };
            assert!(!steps.is_empty() && steps.iter().all(whole), "{plan}");
        }
    }

    #[test]
    fn the_guide_teaches_every_state_tool() {
        let names = ["set", "get", "remove", "list"].map(|verb| format!("session_memory_{verb}"));
        let tools = ["step", "read_progress", "scratchpad", "compact"].map(str::to_owned);
        for tool in names.iter().chain(&tools) {
            assert!(GUIDE.contains(&format!("`{tool}")), "{tool}");
        }
        for field in ["plan", "focus", "complete", "summary"] {
            assert!(GUIDE.contains(&format!("`{field}`")), "{field}");
        }
    }

    #[test]
    fn errors_become_failures_of_the_configuration() {
        let error = builtin().get("poem").expect_err("unknown");
        let failure = Failure::from(error);
        assert_eq!(failure.kind, FailureKind::Config);
        assert!(
            failure
                .message
                .contains("execution, guide, plan_repair, planning"),
            "{failure}"
        );
    }
}
