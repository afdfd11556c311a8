//! What an agent may use of the tools that there are.

use cairn_engine::rules::NamePattern;
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
pub(crate) fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> BTreeSet<String> {
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
}
