//! The tools that a resource may use.

use crate::rules::NamePattern;
use std::collections::BTreeSet;

/// The tools that a resource may use: those that a pattern matches or that were granted, without those that were
/// revoked. By default all tools.
#[derive(Debug, Clone, Default)]
pub struct ResourceTools {
    patterns: Vec<String>,
    /// Tools that it may use in addition.
    pub granted: BTreeSet<String>,
    /// Tools that it may not use, whatever gives them.
    pub revoked: BTreeSet<String>,
    /// Made of the patterns. A resource is asked about tools far more often than its patterns change.
    compiled: Vec<NamePattern>,
}

impl ResourceTools {
    /// Patterns as in rules, such as `github__*`; none at all stand for every tool. A text that is no pattern
    /// matches no tool.
    pub fn new(
        patterns: Vec<String>,
        granted: BTreeSet<String>,
        revoked: BTreeSet<String>,
    ) -> Self {
        let compiled = patterns.iter().filter_map(|it| NamePattern::new(it).ok());
        Self {
            compiled: compiled.collect(),
            patterns,
            granted,
            revoked,
        }
    }

    /// The patterns as they were given; empty for all tools.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The resource may use the tool.
    pub fn allows(&self, tool: &str) -> bool {
        let is_given = || {
            self.patterns.is_empty()
                || self.granted.contains(tool)
                || self.compiled.iter().any(|pattern| pattern.is_match(tool))
        };
        !self.revoked.contains(tool) && is_given()
    }
}

impl PartialEq for ResourceTools {
    fn eq(&self, other: &Self) -> bool {
        (&self.patterns, &self.granted, &self.revoked)
            == (&other.patterns, &other.granted, &other.revoked)
    }
}

impl Eq for ResourceTools {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::compiled;

    fn texts<T: FromIterator<String>>(texts: &[&str]) -> T {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn without_patterns_all_tools_are_allowed_but_revoked_ones() {
        assert!(ResourceTools::default().allows("anything"));
        let tools = ResourceTools::new(Vec::new(), BTreeSet::new(), texts(&["shell_exec"]));
        assert!(tools.allows("read_file") && !tools.allows("shell_exec"));
    }

    #[test]
    fn grants_add_to_the_patterns_and_revocations_take_away_from_both() {
        let tools = ResourceTools::new(
            texts(&["github__*", "read_file"]),
            texts(&["write_file", "edit_file"]),
            texts(&["github__delete", "edit_file"]),
        );
        for (tool, is_allowed) in [
            ("github__list", true),
            ("read_file", true),
            ("read_files", false),
            ("write_file", true),
            ("edit_file", false),
            ("github__delete", false),
            ("gitlab__list", false),
        ] {
            assert_eq!(tools.allows(tool), is_allowed, "{tool}");
        }
    }

    #[test]
    fn a_text_that_is_no_pattern_gives_no_tool() {
        let tools = ResourceTools::new(texts(&["["]), BTreeSet::new(), BTreeSet::new());
        assert!(!tools.allows("read_file") && !tools.allows("["));
        assert_eq!(tools.patterns(), ["["]);
    }

    #[test]
    fn patterns_are_compiled_once() {
        let before = compiled();
        let new = || ResourceTools::new(texts(&["a*", "b*"]), BTreeSet::new(), BTreeSet::new());
        let tools = new();
        assert!((0..100).all(|_| tools.clone().allows("bee")));
        assert_eq!(compiled(), before + 2);
        assert_eq!(tools, new());
        assert_ne!(tools, ResourceTools::default());
    }
}
