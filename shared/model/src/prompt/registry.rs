//! All prompts of a process: the built-in ones, and those of an operator's files.

use super::{
    CODE_GENERATION, CODE_REPAIR, CONVERSATION, EXECUTION, GUIDE, PLAN_REPAIR, PLANNING,
    PromptError, PromptTemplate, SUMMARY, TemplateContext,
};
use cairn_engine::decide::{Prompts as OfDecisions, WORDS};
use std::collections::BTreeMap;
use std::fmt;

/// A problem to try the texts of repairs with.
const SAMPLE: &str = "something is wrong";

/// Where Cairn itself uses a prompt.
#[derive(Debug, Clone, Copy)]
struct Place {
    name: &'static str,
    built_in: &'static str,
    /// The variable that the place has, and a value of it to try a text with.
    variable: Option<(&'static str, &'static str)>,
}

const fn place(name: &'static str, built_in: &'static str) -> Place {
    Place {
        name,
        built_in,
        variable: None,
    }
}

const fn with(place: Place, variable: &'static str, value: &'static str) -> Place {
    Place {
        variable: Some((variable, value)),
        ..place
    }
}

static PLACES: [Place; 8] = [
    place("planning", PLANNING),
    with(place("plan_repair", PLAN_REPAIR), "problem", SAMPLE),
    place("execution", EXECUTION),
    place("guide", GUIDE),
    place("conversation", CONVERSATION),
    with(place("summary", SUMMARY), "words", WORDS),
    place("code_generation", CODE_GENERATION),
    with(place("code_repair", CODE_REPAIR), "problem", SAMPLE),
];

/// Whether Cairn has a prompt of this name.
pub fn is_built_in(name: &str) -> bool {
    PLACES.iter().any(|place| place.name == name)
}

/// The variable that a prompt of this name has beside those of the settings, where Cairn itself uses it.
pub fn variable_of(name: &str) -> Option<&'static str> {
    let place = PLACES.iter().find(|place| place.name == name)?;
    place.variable.map(|(variable, _)| variable)
}

/// Where the text of a prompt comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptSource {
    /// Part of Cairn.
    BuiltIn,
    /// A file of the operator.
    Settings,
}

/// A prompt of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    template: PromptTemplate,
    source: PromptSource,
}

impl Prompt {
    /// Its name and its text.
    pub fn template(&self) -> &PromptTemplate {
        &self.template
    }

    /// Where the text comes from.
    pub fn source(&self) -> PromptSource {
        self.source
    }
}

/// All prompts of a process, with the variables of its settings.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompts {
    prompts: BTreeMap<String, Prompt>,
    variables: BTreeMap<String, String>,
    planning: String,
    code_generation: String,
    of_decisions: OfDecisions,
}

/// The built-in prompts.
impl Default for Prompts {
    fn default() -> Self {
        let prompts = PLACES.iter().map(|place| {
            let prompt = Prompt {
                template: PromptTemplate::new(place.name, place.built_in),
                source: PromptSource::BuiltIn,
            };
            (place.name.to_owned(), prompt)
        });
        Self {
            prompts: prompts.collect(),
            variables: BTreeMap::new(),
            planning: PLANNING.to_owned(),
            code_generation: CODE_GENERATION.to_owned(),
            of_decisions: OfDecisions::built_in().clone(),
        }
    }
}

impl Prompts {
    /// The built-in prompts and those of `files`, which take the places of built-in ones with their names.
    /// `variables` are those of the settings.
    ///
    /// # Errors
    /// Every fault of the texts that stand in the place of a built-in one. A fault of another text is found when
    /// that is rendered.
    pub fn new(
        files: impl IntoIterator<Item = PromptTemplate>,
        variables: BTreeMap<String, String>,
    ) -> Result<Self, Vec<PromptError>> {
        let mut all = Self {
            variables,
            ..Self::default()
        };
        for template in files {
            let source = PromptSource::Settings;
            let name = template.name().to_owned();
            all.prompts.insert(name, Prompt { template, source });
        }
        let (mut texts, mut faults) = (BTreeMap::new(), Vec::new());
        for place in &PLACES {
            match all.in_place(place) {
                Ok(text) => _ = texts.insert(place.name, text),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut take = |name: &str| texts.remove(name).unwrap_or_default();
        all.planning = take("planning");
        all.code_generation = take("code_generation");
        all.of_decisions = OfDecisions::new(
            &take("execution"),
            &take("guide"),
            &take("conversation"),
            &take("summary"),
        );
        Ok(all)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Prompt> {
        self.prompts.values()
    }

    /// A text with its variables replaced: by `values`, and else by those of the settings.
    ///
    /// # Errors
    /// There is no such prompt, or as [`PromptTemplate::render`].
    pub fn render<'v>(
        &self,
        name: &str,
        values: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Result<String, PromptError> {
        let found = self.prompts.get(name);
        let prompt = found.ok_or_else(|| PromptError::unknown(name, self.prompts.keys()))?;
        let mut context = TemplateContext::new();
        for (variable, value) in &self.variables {
            context.set(variable, value);
        }
        for (variable, value) in values {
            context.set(variable, value);
        }
        prompt.template.render(&context)
    }

    /// System prompt for making a plan.
    pub fn planning(&self) -> &str {
        &self.planning
    }

    /// System prompt for writing files.
    pub fn code_generation(&self) -> &str {
        &self.code_generation
    }

    /// The message that tells a model what was wrong with its plan.
    ///
    /// # Errors
    /// As [`Self::render`]; none with the built-in prompt.
    pub fn plan_repair(&self, problem: &str) -> Result<String, PromptError> {
        self.render("plan_repair", [("problem", problem)])
    }

    /// The message that tells a model what was wrong with its files: `problem` continues "it".
    ///
    /// # Errors
    /// As [`Self::render`]; none with the built-in prompt.
    pub fn code_repair(&self, problem: &str) -> Result<String, PromptError> {
        self.render("code_repair", [("problem", problem)])
    }

    /// Those that decisions put into conversations.
    pub fn of_decisions(&self) -> &OfDecisions {
        &self.of_decisions
    }

    /// A text where Cairn uses it.
    fn in_place(&self, place: &Place) -> Result<String, PromptError> {
        let text = self.render(place.name, place.variable)?;
        match text.trim().is_empty() {
            // Providers refuse a message without text.
            true => Err(PromptError::Render {
                template: place.name.to_owned(),
                line: 1,
                message: "it has no text".to_owned(),
            }),
            false => Ok(text),
        }
    }
}

/// Names only: an operator may keep the values of variables secret, and they stand in the texts.
impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.prompts.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<PromptTemplate> {
        let files = files.iter();
        let files = files.map(|(name, text)| PromptTemplate::new(*name, *text));
        files.collect()
    }

    fn variables(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = variables.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    #[test]
    fn built_in_prompts_are_used_as_they_are() {
        let rendered = Prompts::new([], BTreeMap::new()).expect("no fault");
        assert_eq!(rendered, Prompts::default());
        let names: Vec<_> = rendered.all().map(|it| it.template().name()).collect();
        assert!(names.iter().all(|name| is_built_in(name)), "{names:?}");
        assert!(names.is_sorted() && names.len() == PLACES.len());
        assert!(!is_built_in("greeting"));
    }

    #[test]
    fn a_file_takes_the_place_of_a_built_in_prompt() {
        let files = files(&[
            ("planning", "Plan for {team}.\n"),
            ("execution", "Work.\n"),
            ("guide", "Use the tools.\n"),
            ("conversation", "Talk for {team}."),
            ("summary", "Sum up in {words} words, or {{words}}."),
            ("plan_repair", "{problem}! {team}, again."),
            ("code_repair", "It {problem}."),
            ("code_generation", "Write."),
            ("greeting", "Hello {name} of {team}."),
        ]);
        let prompts = Prompts::new(files, variables(&[("team", "Blue")])).expect("no fault");
        assert_eq!(prompts.planning(), "Plan for Blue.\n");
        assert_eq!(prompts.code_generation(), "Write.");
        let summary = format!("Sum up in {WORDS} words, or {{words}}.");
        let of_decisions = OfDecisions::new("Work.", "Use the tools.", "Talk for Blue.", &summary);
        assert_eq!(prompts.of_decisions(), &of_decisions);
        let repair = prompts.plan_repair("{team}").expect("renders");
        assert_eq!(repair, "{team}! Blue, again.");
        assert_eq!(prompts.code_repair("is cut"), Ok("It is cut.".to_owned()));
        let greet = |values: &[(&'static str, &'static str)]| {
            prompts.render("greeting", values.iter().copied())
        };
        let here = greet(&[("name", "Ada")]);
        assert_eq!(here, Ok("Hello Ada of Blue.".to_owned()));
        let other = greet(&[("name", "Ada"), ("team", "Red")]);
        assert_eq!(other, Ok("Hello Ada of Red.".to_owned()));
        let sources = prompts.all().map(Prompt::source);
        assert_eq!(
            sources.filter(|it| *it == PromptSource::Settings).count(),
            9
        );
    }

    #[test]
    fn all_faults_of_used_prompts_are_found_with_their_lines() {
        let texts = files(&[
            ("planning", "Plan.\nFor {team}."),
            ("summary", "One\n{% if words %}"),
            ("guide", " \n"),
            ("greeting", "{% if %}"),
        ]);
        let faults = Prompts::new(texts, BTreeMap::new()).expect_err("faults");
        let found: Vec<_> = faults.iter().map(|it| (it.template(), it.line())).collect();
        let expected = [
            ("planning", Some(2)),
            ("guide", Some(1)),
            ("summary", Some(2)),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            faults[0].to_string(),
            "the prompt \"planning\" needs the variable \"team\" at line 2, which is not set"
        );
        // A text that Cairn does not use is no fault until it is rendered.
        let texts = files(&[("greeting", "{% if %}")]);
        let prompts = Prompts::new(texts, BTreeMap::new()).expect("no fault");
        let fault = prompts.render("greeting", []).expect_err("a fault");
        assert!(
            matches!(fault, PromptError::Syntax { line: 1, .. }),
            "{fault}"
        );
    }

    #[test]
    fn a_prompt_has_the_variables_of_its_place_alone() {
        for name in [
            "planning",
            "execution",
            "guide",
            "conversation",
            "code_generation",
        ] {
            let faults = Prompts::new(files(&[(name, "{problem}")]), BTreeMap::new());
            assert_eq!(faults.expect_err("a fault")[0].template(), name);
        }
        let unknown = Prompts::default().render("poem", []).expect_err("unknown");
        assert!(
            unknown
                .to_string()
                .contains("plan_repair, planning, summary")
        );
        assert_eq!((unknown.template(), unknown.line()), ("poem", None));
    }

    #[test]
    fn values_are_in_no_log() {
        let prompts = Prompts::new(
            files(&[("planning", "{key}")]),
            variables(&[("key", "canary")]),
        );
        let shown = format!("{:?}", prompts.expect("no fault"));
        assert!(
            shown.contains("planning") && !shown.contains("canary"),
            "{shown}"
        );
    }
}
