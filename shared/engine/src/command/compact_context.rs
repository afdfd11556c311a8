//! Replaces the older messages of a context by a summary.

use super::Handle;
use crate::decide::{Decision, Rejection, older_messages};
use crate::event::{ContextChanged, RunStarted};
use crate::limits::MAX_COMPACTION_TEXT;
use crate::refusal::Refusal;
use crate::session::Context;
use serde::{Deserialize, Serialize};

/// Let a model sum up the older incremental messages of a context. The summary takes their place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactContext {
    /// Its name; empty for the active one.
    pub context: String,
    /// The version that the context must have; none for any.
    pub expected_version: Option<u64>,
    /// How many of the newest incremental messages stay. One more stays if a result would lose its call.
    pub keep: u32,
    /// What the model is asked; none for the prompt that is built in. At most
    /// [`MAX_COMPACTION_TEXT`](crate::limits::MAX_COMPACTION_TEXT) bytes.
    pub prompt: Option<String>,
    /// What the summary is to keep, added to the prompt; may be empty. At most as many bytes.
    pub keep_in_mind: String,
    /// The model; empty for the default.
    pub model: String,
    /// The trace that the run belongs to; see `cairn/event/v1/event.proto`.
    pub trace_parent: String,
}

impl CompactContext {
    fn check(&self, name: &str, context: &Context) -> Result<(), Rejection> {
        if let Some(expected) = self.expected_version
            && expected != context.version
        {
            let message = format!(
                "context '{name}' has version {}, and version {expected} was expected; read it again",
                context.version
            );
            return Err(Rejection::refused(Refusal::VersionMismatch, message));
        }
        let texts = [
            ("prompt", self.prompt.as_deref().unwrap_or_default()),
            ("keep_in_mind", &self.keep_in_mind),
        ];
        for (what, text) in texts {
            if text.len() > MAX_COMPACTION_TEXT {
                let message = format!(
                    "{what} has {} bytes; at most {MAX_COMPACTION_TEXT} are allowed",
                    text.len()
                );
                return Err(Rejection::refused(Refusal::Limit, message));
            }
        }
        Ok(())
    }
}

impl Handle for CompactContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let name = decision.session.context_name(&self.context).to_owned();
        let context = decision.known_context(&name)?;
        if let Some(active) = decision.session.active_run() {
            let number = active.number;
            let is_of_it = decision.session.active_turn_of(&name).is_some();
            let reason = match is_of_it {
                true => Refusal::ContextBusy,
                false => Refusal::RunActive,
            };
            let message = format!("run {number} is active; wait for its end or cancel it");
            return Err(Rejection::refused(reason, message));
        }
        self.check(&name, context)?;
        let (version, said) = (context.version, &context.conversation.incremental);
        if older_messages(said, self.keep) == 0 {
            return decision.answer(ContextChanged::of_context(&name, version, Vec::new()));
        }
        let mut limits = decision.facts.limits;
        // Nothing that a person says reaches its model.
        limits.max_tool_turns = 0;
        let agent = decision.agent_of_context(&name)?;
        let started = decision.start_in_context(&name, agent, limits, 0)?;
        let run = started.run;
        let model = match self.model.as_str() {
            "" => started.model.clone(),
            _ => self.model,
        };
        decision.answer(RunStarted {
            goal: format!("compact context '{name}'"),
            model,
            trace_parent: self.trace_parent,
            ..started
        })?;
        Ok(decision.advance(run)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::command::{ChangeContext, ContextOp, CreateContext, PauseRun, SubmitTurn};
    use crate::event::EventKind;
    use crate::message::Message;

    /// A session whose context has so many messages.
    fn with_messages(count: usize) -> Sent {
        let mut sent = Sent::new();
        let message = |n: usize| ContextOp::Append(Message::user(format!("message {n}")));
        sent.send(ChangeContext {
            ops: (0..count).map(message).collect(),
            ..ChangeContext::default()
        });
        sent
    }

    fn keep(keep: u32) -> CompactContext {
        CompactContext {
            keep,
            ..CompactContext::default()
        }
    }

    #[test]
    fn a_model_is_asked_for_a_summary_of_what_is_older() {
        let mut sent = with_messages(4);
        let events = sent.send(CompactContext {
            keep_in_mind: "the port".to_owned(),
            ..keep(1)
        });
        let [
            EventKind::RunStarted(started),
            EventKind::StepStarted(_),
            EventKind::SummaryAsked(asked),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(started.limits.max_tool_turns, 0);
        assert_eq!((asked.messages.after, asked.messages.through), (0, 3));
        assert!(asked.prompt.ends_with("the port"), "{}", asked.prompt);
    }

    #[test]
    fn nothing_happens_if_as_many_messages_are_to_stay() {
        let mut sent = with_messages(2);
        for kept in [2, 3, u32::MAX] {
            let before = sent.session.context("").cloned();
            let events = sent.send(keep(kept));
            let [EventKind::ContextChanged(changed)] = &events[..] else {
                panic!("{events:?}");
            };
            assert_eq!((changed.version, &changed.ops[..]), (1, &[][..]));
            assert_eq!(sent.session.context("").cloned(), before);
        }
    }

    #[test]
    fn an_active_run_keeps_the_context_busy_whatever_is_to_stay() {
        let mut sent = with_messages(2);
        sent.send(CreateContext {
            name: "side".to_owned(),
            ..CreateContext::default()
        });
        sent.send(SubmitTurn::default());
        for kept in [1, 9] {
            assert_eq!(sent.refused(keep(kept)), Refusal::ContextBusy);
            let side = CompactContext {
                context: "side".to_owned(),
                ..keep(kept)
            };
            assert_eq!(sent.refused(side), Refusal::RunActive);
        }
        sent.send(PauseRun::default());
        assert_eq!(sent.refused(keep(1)), Refusal::ContextBusy);
    }

    #[test]
    fn another_version_an_unknown_context_and_long_texts_are_refused() {
        let mut sent = with_messages(2);
        let other = CompactContext {
            expected_version: Some(2),
            ..keep(1)
        };
        assert_eq!(sent.refused(other), Refusal::VersionMismatch);
        let unknown = CompactContext {
            context: "other".to_owned(),
            ..keep(1)
        };
        assert_eq!(sent.refused(unknown), Refusal::ContextNotFound);
        let long = "x".repeat(MAX_COMPACTION_TEXT + 1);
        let prompt = CompactContext {
            prompt: Some(long.clone()),
            ..keep(1)
        };
        let kept = CompactContext {
            keep_in_mind: long,
            ..keep(1)
        };
        for faulty in [prompt, kept] {
            assert_eq!(sent.refused(faulty), Refusal::Limit);
        }
    }
}
