//! What an agent may use of the tools that there are.

use crate::agent::AgentFile;
use cairn_engine::rules::{Answer, NamePattern};
use std::collections::BTreeSet;

/// The pattern of every name.
pub(crate) const EVERY: &str = "*";

/// The tools that an agent is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tools {
    /// All that there are.
    #[default]
    All,
    /// Those that match one of the patterns. None of them may have a match.
    Only(Vec<String>),
}

/// The lists of an agent, ready to judge calls.
#[derive(Debug, Clone)]
pub struct Rights {
    only: Option<Vec<NamePattern>>,
    denied: Vec<NamePattern>,
    ask: Vec<NamePattern>,
}

impl Rights {
    /// # Errors
    /// What is wrong with the first pattern that is none. An agent that was parsed has no such pattern.
    pub fn new(agent: &AgentFile) -> Result<Self, String> {
        let only = match &agent.tools {
            Tools::All => None,
            Tools::Only(patterns) => Some(compiled(patterns)?),
        };
        Ok(Self {
            only,
            denied: compiled(&agent.denied)?,
            ask: compiled(&agent.ask)?,
        })
    }

    /// What the agent's definition says of a call of this tool; rules may be stricter. What it denies is not
    /// offered either.
    pub fn answer(&self, tool: &str) -> Answer {
        let is_among = |patterns: &[NamePattern]| patterns.iter().any(|it| it.is_match(tool));
        let is_offered = self.only.as_deref().is_none_or(is_among);
        if !is_offered || is_among(&self.denied) {
            Answer::Deny
        } else if is_among(&self.ask) {
            Answer::Ask
        } else {
            Answer::Allow
        }
    }
}

fn compiled(patterns: &[String]) -> Result<Vec<NamePattern>, String> {
    let patterns = patterns.iter().map(|pattern| NamePattern::new(pattern));
    patterns.collect()
}

/// The rights of an agent while its file is read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Patterns of the tools that are offered; none for all.
    pub(crate) only: Option<BTreeSet<String>>,
    /// Patterns of the tools that are not.
    pub(crate) denied: BTreeSet<String>,
    /// Patterns of the tools of which each call asks.
    pub(crate) ask: BTreeSet<String>,
    /// Agents that may be given tasks; none for all.
    pub(crate) agents: Option<BTreeSet<String>>,
}

impl Draft {
    /// Offers these tools, and no other than were offered before.
    pub(crate) fn restrict(&mut self, tools: BTreeSet<String>) {
        self.only = Some(match self.only.take() {
            None => tools,
            Some(before) => common(&before, &tools),
        });
    }

    /// Lets tasks be given to these agents, and to no others than before.
    pub(crate) fn restrict_agents(&mut self, agents: BTreeSet<String>) {
        self.agents = Some(match self.agents.take() {
            None => agents,
            Some(before) => &before & &agents,
        });
    }

    pub(crate) fn tools(&self) -> Tools {
        match &self.only {
            None => Tools::All,
            Some(only) => Tools::Only(only.iter().cloned().collect()),
        }
    }
}

/// Patterns that match at most what both lists match.
///
/// A name of one list is kept if the other has it or a pattern for it. Two patterns that overlap and are not
/// equal are both left out: less is offered then, never more.
fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> BTreeSet<String> {
    let mut kept = covered(one, other);
    kept.append(&mut covered(other, one));
    kept
}

/// Those of `names` that `patterns` match.
fn covered(names: &BTreeSet<String>, patterns: &BTreeSet<String>) -> BTreeSet<String> {
    let has_every = patterns.contains(EVERY);
    let globs = patterns.iter().filter(|it| !is_plain(it));
    let globs: Vec<NamePattern> = globs.filter_map(|it| NamePattern::new(it).ok()).collect();
    let is_covered = |name: &&String| {
        let is_matched = || is_plain(name) && globs.iter().any(|it| it.is_match(name));
        has_every || patterns.contains(*name) || is_matched()
    };
    names.iter().filter(is_covered).cloned().collect()
}

/// Whether a pattern is a name, which matches itself alone.
fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', ']', '{', '}', '!', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn two_lists_offer_what_both_have() {
        let check = |one: &[&str], other: &[&str], both: &[&str]| {
            assert_eq!(
                common(&set(one), &set(other)),
                set(both),
                "{one:?} {other:?}"
            );
            assert_eq!(
                common(&set(other), &set(one)),
                set(both),
                "{other:?} {one:?}"
            );
        };
        check(&["a", "b"], &["b", "c"], &["b"]);
        check(&["a", "g__x"], &["g__*"], &["g__x"]);
        check(&["*"], &["a", "g__*"], &["a", "g__*"]);
        check(&["g__*"], &["g__*", "a"], &["g__*"]);
        check(&["g__*"], &["*__x"], &[]);
        check(&["a*"], &["a?"], &[]);
        check(&[], &["*"], &[]);
    }

    #[test]
    fn a_second_list_narrows_the_first() {
        let mut draft = Draft::default();
        assert_eq!(draft.tools(), Tools::All);
        draft.restrict(set(&["a", "b"]));
        draft.restrict(set(&["b", "c"]));
        assert_eq!(draft.tools(), Tools::Only(vec!["b".to_owned()]));
        draft.restrict_agents(set(&["x", "y"]));
        draft.restrict_agents(set(&["y"]));
        assert_eq!(draft.agents, Some(set(&["y"])));
    }

    #[test]
    fn what_is_denied_is_not_offered_and_what_asks_is() {
        let agent = AgentFile {
            tools: Tools::Only(vec!["read_file".to_owned(), "g__*".to_owned()]),
            denied: vec!["g__delete".to_owned()],
            ask: vec!["g__*".to_owned()],
            ..AgentFile::named("a")
        };
        let rights = Rights::new(&agent).unwrap();
        for (tool, answer) in [
            ("read_file", Answer::Allow),
            ("g__list", Answer::Ask),
            ("g__delete", Answer::Deny),
            ("write_file", Answer::Deny),
        ] {
            assert_eq!(rights.answer(tool), answer, "{tool}");
        }
        let all = Rights::new(&AgentFile::named("a")).unwrap();
        assert_eq!(all.answer("anything"), Answer::Allow);
    }
}
