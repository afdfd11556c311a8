//! Gives a session another title.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::limits::MAX_TITLE;
use crate::refusal::Refusal;
use crate::session::{Apply, Envelope, Session};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// Give the session another title.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameSession {
    pub title: String,
}

/// The session has another title.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRenamed {
    pub title: String,
}

impl Handle for RenameSession {
    const BEGINS_WORK: bool = false;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let bytes = self.title.len();
        if bytes > MAX_TITLE {
            let message = format!("the title has {bytes} bytes; at most {MAX_TITLE} are allowed");
            return Err(Rejection::refused(Refusal::BadTitle, message));
        }
        decision.answer(SessionRenamed { title: self.title })
    }
}

impl Apply for SessionRenamed {
    fn apply(&self, session: &mut Session, _envelope: Envelope<'_>) -> Applied {
        session.title.clone_from(&self.title);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, RunLimits};
    use crate::decide::{Facts, Input, ToolList};
    use crate::event::{Event, EventKind};
    use std::collections::BTreeMap;

    fn renamed(title: &str) -> (Session, Vec<Event>) {
        let tools = ToolList::new();
        let facts = Facts { rules: crate::rules::Rules::none(),
            agents: crate::decide::Agents::none(),
            prompts: crate::decide::Prompts::built_in(),
            environment: "",
            now: 1,
            not_after: 1,
            tools: &tools,
            away: &[],
            offered: &BTreeMap::new(),
            limits: RunLimits::default(),
            result_bytes: crate::limits::RESULT_BYTES,
            journal_permille: 0,
            compaction: crate::decide::Compaction::default(),
            responses: |_, _| Ok(String::new()),
            pool: crate::pool::PoolFacts::none(),
            hooks: crate::hooks::PresentHooks::none(),
            starts: true,
            starts_queued: true,
        };
        let rename = RenameSession {
            title: title.to_owned(),
        };
        let create = Input::Create {
            title: "first".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: Some(("request".to_owned(), Command::from(rename))),
        };
        let mut session = Session::default();
        let events = session.decide(create, &facts).expect("it is legal");
        (session, events)
    }

    #[test]
    fn the_session_has_the_new_title() {
        let (session, events) = renamed("second");
        assert_eq!(session.title, "second");
        let answer = events.last().expect("it is answered");
        assert!(matches!(&answer.kind, EventKind::SessionRenamed(it) if it.title == "second"));
        assert_ne!(answer.answers, 0);
    }

    #[test]
    fn a_title_that_is_too_long_changes_nothing() {
        let (session, events) = renamed(&"t".repeat(MAX_TITLE + 1));
        assert_eq!(session.title, "first");
        let answer = events.last().expect("it is answered");
        assert!(matches!(&answer.kind, EventKind::CommandRefused(it) if it.reason == Refusal::BadTitle));
    }
}
