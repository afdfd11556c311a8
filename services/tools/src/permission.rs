//! Which tools may be called at all, as the operator decided.

use crate::error::ToolError;
use cairn_engine::rules::{Answer, DEFAULT_AGENT, NamePattern, Rules, Scope};

/// No rule is for an agent without a name, so only the rules for every agent are for it.
const NO_AGENT: &str = "";

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

    /// Whether some call of `name` may be made, unless a rule for the agent that calls denies it.
    pub fn allows(&self, name: &str) -> bool {
        self.is_listed(name) && !self.rules.always_deny(name, NO_AGENT)
    }

    fn is_listed(&self, name: &str) -> bool {
        let allow = self.allow.as_ref();
        allow.is_none_or(|allow| allow.iter().any(|pattern| pattern.is_match(name)))
    }

    /// Whether the agent may call `name` at all. An empty `agent` is the default one.
    ///
    /// # Errors
    /// [`ToolError::Denied`], with the list or the rule.
    pub fn check(&self, name: &str, agent: &str) -> Result<(), ToolError> {
        if !self.is_listed(name) {
            return Err(ToolError::Denied(format!(
                "tool '{name}' is not on the allow-list of the tools service; use another tool, or have the \
                 operator allow it"
            )));
        }
        self.check_scope(name, &Scope::default(), agent)
    }

    /// Whether the agent may make a call that touches this. An empty `agent` is the default one.
    ///
    /// # Errors
    /// [`ToolError::Denied`], with the rule.
    pub fn check_scope(&self, name: &str, scope: &Scope, agent: &str) -> Result<(), ToolError> {
        let agent = match agent.is_empty() {
            true => DEFAULT_AGENT,
            false => agent,
        };
        let verdict = self.rules.judge(name, scope, agent, Answer::Allow);
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
            let Err(ToolError::Denied(message)) = permissions.check(name, "") else {
                panic!("{name} is denied");
            };
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn a_rule_for_an_agent_denies_its_calls_alone() {
        let rule = |tool: &str, agent: &str| Rule {
            tool: tool.to_owned(),
            when: BTreeMap::new(),
            agent: Some(agent.to_owned()),
            answer: Answer::Deny,
        };
        let rules = vec![
            rule("a", "reviewer"),
            rule("b", "default"),
            rule("c", "workspace:reviewer"),
        ];
        let permissions = Permissions::new(None, Rules::new(rules).unwrap());
        for (tool, agent, is_denied) in [
            ("a", "reviewer", true),
            ("a", "workspace:reviewer", false),
            ("a", "default", false),
            ("a", "", false),
            ("b", "reviewer", false),
            ("b", "default", true),
            ("b", "", true),
            ("c", "reviewer", false),
            ("c", "workspace:reviewer", true),
        ] {
            let denied = permissions.check(tool, agent).is_err();
            assert_eq!(denied, is_denied, "{tool} {agent}");
            assert!(permissions.allows(tool), "{tool}: other agents may call it");
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
