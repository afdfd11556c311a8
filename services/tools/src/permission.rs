//! Which tools may be called at all, by the operator's word.

use crate::error::ToolError;
use cairn_engine::key::approval_digest;
use std::collections::BTreeSet;

/// Allow-, ask- and deny-lists of exact names. The deny-list wins; a tool on the ask-list may be
/// called once a person has agreed to the very call.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
    ask: BTreeSet<String>,
}

impl Permissions {
    /// Without an allow-list every tool that is not denied may be called; with an empty one, none.
    pub fn new(allow: Option<Vec<String>>, deny: Vec<String>) -> Self {
        Self {
            allow: allow.map(BTreeSet::from_iter),
            deny: BTreeSet::from_iter(deny),
            ask: BTreeSet::new(),
        }
    }

    /// With tools whose every call needs a person's word.
    #[must_use]
    pub fn asking(mut self, ask: Vec<String>) -> Self {
        self.ask = BTreeSet::from_iter(ask);
        self
    }

    /// Whether each call of `name` needs a person's word.
    pub fn asks(&self, name: &str) -> bool {
        self.ask.contains(name)
    }

    /// # Errors
    /// [`ToolError::Denied`], if the call needs a person's word and `approval` is not the digest of
    /// this very call.
    pub fn check_approval(
        &self,
        name: &str,
        arguments: &str,
        approval: &str,
    ) -> Result<(), ToolError> {
        if !self.asks(name) || approval == approval_digest(name, arguments) {
            return Ok(());
        }
        let why = if approval.is_empty() {
            "needs a person's approval, and nobody was asked"
        } else {
            "needs a person's approval, and what was approved is another call"
        };
        Err(ToolError::Denied(format!("tool '{name}' {why}")))
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
    fn an_approval_is_for_one_call_and_no_other() {
        let permissions = Permissions::default().asking(names(&["pay"]));
        let digest = approval_digest("pay", r#"{"sum":1}"#);
        let check = |name: &str, arguments: &str, approval: &str| {
            permissions.check_approval(name, arguments, approval)
        };
        assert_eq!(check("pay", r#"{"sum":1}"#, &digest), Ok(()));
        assert_eq!(check("look", "{}", ""), Ok(()), "nobody asks for it");
        let others = [
            ("pay", r#"{"sum":1}"#, ""),
            ("pay", r#"{"sum":2}"#, digest.as_str()),
            ("pay", r#"{"sum": 1}"#, digest.as_str()),
        ];
        for (name, arguments, approval) in others {
            let refused = check(name, arguments, approval);
            assert!(matches!(refused, Err(ToolError::Denied(_))), "{refused:?}");
        }
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
