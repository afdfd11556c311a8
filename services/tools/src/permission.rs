//! Which tools may be called at all, as the operator decided.

use crate::error::ToolError;
use cairn_engine::rules::{Answer, DEFAULT_AGENT, NamePattern, Rules, Scope};

/// The allow-list and the rules, which win. That a call needs a person is for its owner to see to: this
/// process refuses only what is denied.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Option<Vec<NamePattern>>,
    rules: Rules,
}

impl Permissions {
    /// Without an allow-list every tool that no rule denies may be called; with an empty one, none.
    pub fn new(allow: Option<Vec<NamePattern>>, rules: Rules) -> Self {
        Self { allow, rules }
    }

    /// The rules about calls.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether some call of `name` may be made.
    pub fn allows(&self, name: &str) -> bool {
        self.is_listed(name) && !self.rules.always_deny(name, DEFAULT_AGENT)
    }

    fn is_listed(&self, name: &str) -> bool {
        let allow = self.allow.as_ref();
        allow.is_none_or(|allow| allow.iter().any(|pattern| pattern.is_match(name)))
    }

    /// # Errors
    /// [`ToolError::Denied`], with the list or the rule.
    pub fn check(&self, name: &str) -> Result<(), ToolError> {
        if !self.is_listed(name) {
            return Err(ToolError::Denied(format!(
                "tool '{name}' is not on the allow-list of the tools service; use another tool, or have the \
                 operator allow it"
            )));
        }
        self.check_scope(name, &Scope::default())
    }

    /// # Errors
    /// [`ToolError::Denied`], with the rule.
    pub fn check_scope(&self, name: &str, scope: &Scope) -> Result<(), ToolError> {
        let verdict = self.rules.judge(name, scope, DEFAULT_AGENT, Answer::Allow);
        verdict
            .denial(name)
            .map_or(Ok(()), |why| Err(ToolError::Denied(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::rules::Rule;
    use std::collections::BTreeMap;

    fn permissions(allow: Option<&[&str]>, deny: &[&str]) -> Permissions {
        let allow = allow.map(|names| {
            let patterns = names.iter().map(|name| NamePattern::new(name).unwrap());
            patterns.collect()
        });
        let rule = |name: &&str| Rule {
            tool: (*name).to_owned(),
            when: BTreeMap::new(),
            agent: None,
            answer: Answer::Deny,
        };
        Permissions::new(allow, Rules::new(deny.iter().map(rule).collect()).unwrap())
    }

    #[test]
    fn without_lists_everything_is_allowed() {
        assert!(Permissions::default().allows("anything"));
    }

    #[test]
    fn deny_wins_over_allow() {
        let permissions = permissions(Some(&["a", "b"]), &["b"]);
        assert!(permissions.allows("a"));
        for (name, words) in [("b", "a rule denies"), ("c", "allow-list")] {
            assert!(!permissions.allows(name));
            let Err(ToolError::Denied(message)) = permissions.check(name) else {
                panic!("{name} is denied");
            };
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_empty_allow_list_allows_nothing() {
        assert!(!permissions(Some(&[]), &[]).allows("a"));
    }

    #[test]
    fn names_are_compared_exactly_and_patterns_match_many() {
        let denied = permissions(None, &["write_file"]);
        for other in [
            "Write_file",
            "write_file ",
            "write_fil",
            "write_files",
            "ｗrite_file",
        ] {
            assert!(denied.allows(other), "{other:?} is another name");
        }
        let allowed = permissions(Some(&["read_file"]), &[]);
        for other in [
            "Read_file",
            "read_file ",
            "read_fil",
            "read_file\0",
            "rеad_file",
        ] {
            assert!(!allowed.allows(other), "{other:?} is another name");
        }
        let servers = permissions(Some(&["a__*", "b__*"]), &["b__*"]);
        assert!(servers.allows("a__x"));
        assert!(!servers.allows("b__x"));
        assert!(!servers.allows("c__x"));
    }
}
