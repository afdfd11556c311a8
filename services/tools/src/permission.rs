//! Which tools may be called at all, by the operator's word.

use crate::error::ToolError;
use cairn_engine::rules::{Answer, DEFAULT_AGENT, Rules, Values};
use std::collections::BTreeSet;

/// Allow- and deny-lists of exact names, and the rules. The deny-list wins. That a call needs a person's
/// word is for its owner to see to: this process refuses only what is denied.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
    rules: Rules,
}

impl Permissions {
    /// Without an allow-list every tool that is not denied may be called; with an empty one, none.
    pub fn new(allow: Option<Vec<String>>, deny: Vec<String>) -> Self {
        Self {
            allow: allow.map(BTreeSet::from_iter),
            deny: BTreeSet::from_iter(deny),
            rules: Rules::default(),
        }
    }

    /// With rules about calls.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The rules about calls.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether `name` may be called.
    pub fn allows(&self, name: &str) -> bool {
        let listed = match &self.allow {
            Some(allow) => allow.contains(name),
            None => true,
        };
        listed && !self.deny.contains(name)
    }

    /// # Errors
    /// [`ToolError::Denied`], saying which list it was.
    pub fn check(&self, name: &str) -> Result<(), ToolError> {
        if self.allows(name) {
            return Ok(());
        }
        let why = if self.deny.contains(name) {
            "is on the deny-list"
        } else {
            "is not on the allow-list"
        };
        Err(ToolError::Denied(format!(
            "tool '{name}' {why} of the tools service; use another tool, or have the operator allow it"
        )))
    }

    /// # Errors
    /// [`ToolError::Denied`], with the rule.
    pub fn check_values(&self, name: &str, values: &Values) -> Result<(), ToolError> {
        let verdict = self.rules.judge(name, values, DEFAULT_AGENT, Answer::Allow);
        match verdict.rule {
            Some(rule) if verdict.answer == Answer::Deny => Err(ToolError::Denied(format!(
                "a rule denies this call of '{name}': {}",
                rule.to_line()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn without_lists_everything_is_allowed() {
        assert!(Permissions::default().allows("anything"));
    }

    #[test]
    fn deny_wins_over_allow() {
        let permissions = Permissions::new(Some(names(&["a", "b"])), names(&["b"]));
        assert!(permissions.allows("a"));
        let Err(ToolError::Denied(message)) = permissions.check("b") else {
            panic!("b is denied");
        };
        assert!(message.contains("deny-list"), "{message}");
        let Err(ToolError::Denied(message)) = permissions.check("c") else {
            panic!("c is not allowed");
        };
        assert!(message.contains("allow-list"), "{message}");
    }

    #[test]
    fn an_empty_allow_list_allows_nothing() {
        assert!(!Permissions::new(Some(Vec::new()), Vec::new()).allows("a"));
    }

    #[test]
    fn names_are_compared_exactly() {
        let permissions = Permissions::new(None, names(&["write_file"]));
        for other in [
            "Write_file",
            "write_file ",
            "write_fil",
            "write_files",
            "ｗrite_file",
        ] {
            assert!(permissions.allows(other), "{other:?} is another name");
        }
        let permissions = Permissions::new(Some(names(&["read_file"])), Vec::new());
        for other in [
            "Read_file",
            "read_file ",
            "read_fil",
            "read_file\0",
            "rеad_file",
        ] {
            assert!(!permissions.allows(other), "{other:?} is another name");
        }
    }
}
