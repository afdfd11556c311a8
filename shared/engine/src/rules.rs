//! Who decides about a call: the rules of the operator, and what people approved for a session.
//!
//! A rule names tools by a pattern and may narrow that to calls whose values match. What a call touches is a
//! [`Scope`], read from the arguments by what each tool declares; see [`Matcher`]. Among the rules that
//! match, the strictest answer holds. A tool's default holds only where no rule matches.
//!
//! A rule that allows matches only what is within its patterns for certain. A rule that asks or denies
//! matches what may touch them, in any case of letters. `path` in a rule means every path of the call.

mod approval;
mod command;
mod conditions;
mod host;
mod matcher;
mod names;
mod protected;
mod reading;
mod scope;
mod shell;

pub use approval::{ApprovalScope, Called, GrantScope, ScopeId, ToolServer, scopes};
pub use command::{is_covered, prefix_of, simple_command};
pub use conditions::Conditions;
pub use matcher::{Condition, Matcher, MatcherKind};
pub use names::kind_of_text;
use scope::PATH;
pub use scope::{Scope, scope};
pub use shell::{AROUND_SECONDS, LONGEST_SECONDS, SHELL_TOOL, USUAL_SECONDS, command_seconds};

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The agent of a call that belongs to no other one.
pub const DEFAULT_AGENT: &str = "default";

/// What is to become of a call. A later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is made.
    Allow,
    /// It waits for a person.
    #[default]
    Ask,
    /// It is refused.
    Deny,
}

impl Answer {
    /// As settings and commands write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One rule as the operator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A pattern of qualified names: `github__*`.
    pub tool: String,
    /// Patterns of values by their names: `path = "docs/**"`. All of them must match. A name is that of an
    /// argument; `path` means every path, and `host` every host, that no other name here means.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, String>,
    /// The agent that it is for; every agent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The answer.
    pub answer: Answer,
}

impl Rule {
    /// What cannot be used of it: a field, and what is wrong there.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn check(&self) -> Result<(), (String, String)> {
        NamePattern::new(&self.tool).map_err(|problem| ("tool".to_owned(), problem))?;
        for (name, pattern) in &self.when {
            pattern_of(name, pattern).map_err(|problem| (format!("when.{name}"), problem))?;
        }
        Ok(())
    }

    /// In one line, for people: `github__* when path = "docs/**": ask`.
    pub fn to_line(&self) -> String {
        let mut line = self.tool.clone();
        for (at, (name, pattern)) in self.when.iter().enumerate() {
            let word = if at == 0 { "when" } else { "and" };
            line.push_str(&format!(" {word} {name} = {pattern:?}"));
        }
        if let Some(agent) = &self.agent {
            line.push_str(&format!(" for agent {agent}"));
        }
        line.push_str(": ");
        line.push_str(self.answer.name());
        line
    }
}

/// A pattern of names of tools: `github__*`.
#[derive(Debug, Clone)]
pub struct NamePattern(GlobMatcher);

impl NamePattern {
    /// # Errors
    /// What is wrong with the pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        compile(pattern, false).map(Self)
    }

    /// Whether the pattern is for this tool.
    pub fn is_match(&self, tool: &str) -> bool {
        self.0.is_match(tool)
    }
}

/// A pattern of values.
#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    globs: Globs,
    /// In lower case, for rules that ignore case.
    lower: Option<Globs>,
}

/// What is below a folder is meant with the folder itself: a listing shows it all.
#[derive(Debug, Clone)]
struct Globs {
    below: GlobMatcher,
    folder: Option<GlobMatcher>,
}

impl Globs {
    fn new(pattern: &str) -> Result<Self, String> {
        let folder = pattern
            .strip_suffix("/**")
            .filter(|folder| !folder.is_empty());
        Ok(Self {
            below: compile(pattern, true)?,
            folder: folder.map(|folder| compile(folder, true)).transpose()?,
        })
    }

    fn is_match(&self, value: &str) -> bool {
        self.below.is_match(value) || self.folder.as_ref().is_some_and(|it| it.is_match(value))
    }
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, String> {
        Ok(Self {
            text: pattern.to_owned(),
            globs: Globs::new(pattern)?,
            lower: None,
        })
    }

    fn ignoring_case(mut self) -> Self {
        self.lower = Globs::new(&self.text.to_lowercase()).ok();
        self
    }

    fn is_match(&self, value: &str) -> bool {
        let lower = self.lower.as_ref();
        self.globs.is_match(value) || lower.is_some_and(|it| it.is_match(&value.to_lowercase()))
    }

    fn ignores_case(&self) -> bool {
        self.lower.is_some()
    }

    fn is_from_root(&self) -> bool {
        self.text.starts_with('/')
    }

    /// It is meant for paths from a folder. Whether a path from the root matches depends on the folder.
    fn is_relative(&self) -> bool {
        !self.is_from_root() && !self.text.starts_with("**")
    }
}

/// The pattern of a rule for the value of this name.
///
/// # Errors
/// What is wrong with it. A rule of paths that no path matches would deny nothing, unseen.
fn pattern_of(name: &str, pattern: &str) -> Result<Pattern, String> {
    let from_root = pattern.strip_prefix('/').unwrap_or(pattern);
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    let is_path = matches!(pattern, "." | "/")
        || (from_root.split('/').all(is_plain) && !pattern.starts_with('~'));
    match name != PATH || is_path {
        true => Pattern::new(pattern),
        false => Err(
            "matches no path: paths here have no '~', '.', '..', doubled slash or slash at the end"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
thread_local! {
    static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many patterns this thread has compiled.
#[cfg(test)]
pub(crate) fn compiled() -> usize {
    COMPILED.get()
}

/// A pattern of names, or of values in which `*` stays within one folder.
fn compile(pattern: &str, is_path: bool) -> Result<GlobMatcher, String> {
    #[cfg(test)]
    COMPILED.set(COMPILED.get() + 1);
    let glob = GlobBuilder::new(pattern)
        .literal_separator(is_path)
        .backslash_escape(true)
        .build();
    match glob {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(format!("is no pattern: {error}")),
    }
}

/// The pattern that matches this value and no other.
pub fn exactly(value: &str) -> String {
    // The library leaves this one, which is an escape in our patterns.
    globset::escape(value).replace('\\', "\\\\")
}

/// All rules, ready to judge by.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Compiled>);

#[derive(Debug, Clone)]
struct Compiled {
    rule: Rule,
    tool: NamePattern,
    when: Vec<(String, Pattern)>,
}

/// What the rules say of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'r> {
    /// The answer.
    pub answer: Answer,
    /// The rule that gave it; none if it is the tool's default.
    pub rule: Option<&'r Rule>,
    /// Servers differ about the arguments, so the rule holds whatever it says of them.
    pub is_unclear: bool,
}

impl Verdict<'_> {
    /// What a refused call of `tool` ends with; none if it is not refused.
    pub fn denial(&self, tool: &str) -> Option<String> {
        let rule = self.rule.filter(|_| self.answer == Answer::Deny)?;
        let line = rule.to_line();
        let unclear = match self.is_unclear && !rule.when.is_empty() {
            true => {
                "; the arguments are unclear: give only those that the tool declares, each by its exact name"
            }
            false => "",
        };
        Some(format!(
            "a rule denies this call of '{tool}': {line}{unclear}"
        ))
    }
}

impl Rules {
    /// Rules in the operator's order, which decides nothing but the one that is named among equally
    /// strict ones.
    ///
    /// # Errors
    /// The first rule that cannot be used: its position, the field, and what is wrong there.
    pub fn new(rules: Vec<Rule>) -> Result<Self, (usize, String, String)> {
        let compiled = rules.into_iter().enumerate().map(|(at, rule)| {
            let of = |field: String| move |problem| (at, field, problem);
            let tool = NamePattern::new(&rule.tool).map_err(of("tool".to_owned()))?;
            let when = rule.when.iter().map(|(name, pattern)| {
                let glob = pattern_of(name, pattern).map_err(of(format!("when.{name}")))?;
                // Some systems and servers take `A` for `a`.
                let glob = match rule.answer {
                    Answer::Allow => glob,
                    Answer::Ask | Answer::Deny => glob.ignoring_case(),
                };
                Ok((name.clone(), glob))
            });
            let when = when.collect::<Result<_, _>>()?;
            Ok(Compiled { rule, tool, when })
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// No rules: every tool has its default.
    pub fn none() -> &'static Self {
        static NONE: Rules = Rules(Vec::new());
        &NONE
    }

    /// The rules as they were written.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|compiled| &compiled.rule)
    }

    /// What they say of one call of `tool`. `default` holds where no rule matches.
    pub fn judge(&self, tool: &str, scope: &Scope, agent: &str, default: Answer) -> Verdict<'_> {
        let strictest = self
            .0
            .iter()
            .filter(|it| it.is_for(tool, agent) && it.matches(scope));
        let strictest = strictest.reduce(|a, b| match b.rule.answer > a.rule.answer {
            true => b,
            false => a,
        });
        Verdict {
            answer: strictest.map_or(default, |it| it.rule.answer),
            rule: strictest.map(|it| &it.rule),
            is_unclear: scope.is_unclear,
        }
    }

    /// Every call of `tool` is allowed, whatever its arguments are: it may begin before its owner judges it.
    pub fn always_allow(&self, tool: &str, agent: &str, default: Answer) -> bool {
        let mut of_tool = self.of(tool, agent);
        let is_allowed = self
            .of(tool, agent)
            .any(|it| it.when.is_empty() && it.rule.answer == Answer::Allow);
        (default == Answer::Allow || is_allowed)
            && of_tool.all(|it| it.rule.answer == Answer::Allow)
    }

    /// Some call of `tool` may be made without a person.
    pub fn may_allow(&self, tool: &str, agent: &str, default: Answer) -> bool {
        let mut of_tool = self.of(tool, agent);
        default == Answer::Allow || of_tool.any(|it| it.rule.answer == Answer::Allow)
    }

    /// Every call of `tool` waits for a person, whatever its arguments are.
    pub fn always_ask(&self, tool: &str, agent: &str, default: Answer) -> bool {
        let mut of_tool = self.of(tool, agent);
        let is_asked = self
            .of(tool, agent)
            .any(|it| it.when.is_empty() && it.rule.answer == Answer::Ask);
        // A rule with conditions that allows leaves some calls to it, unless another one asks in any case.
        let may_allow = self
            .of(tool, agent)
            .any(|it| it.rule.answer == Answer::Allow);
        (is_asked || (default == Answer::Ask && !may_allow))
            && of_tool.all(|it| it.rule.answer != Answer::Deny)
    }

    /// No call of `tool` is made, whatever its arguments are.
    pub fn always_deny(&self, tool: &str, agent: &str) -> bool {
        self.of(tool, agent)
            .any(|it| it.when.is_empty() && it.rule.answer == Answer::Deny)
    }

    fn of<'a>(&'a self, tool: &'a str, agent: &'a str) -> impl Iterator<Item = &'a Compiled> {
        self.0.iter().filter(move |it| it.is_for(tool, agent))
    }
}

impl Compiled {
    fn is_for(&self, tool: &str, agent: &str) -> bool {
        let for_agent = self.rule.agent.as_deref().is_none_or(|name| name == agent);
        for_agent && self.tool.is_match(tool)
    }

    fn matches(&self, scope: &Scope) -> bool {
        match self.rule.answer {
            Answer::Allow => scope.is_within(&self.when),
            Answer::Ask | Answer::Deny => scope.may_touch(&self.when),
        }
    }
}

#[cfg(test)]
mod tests;
