//! Compactions: what an attempt waits for because its conversation is long, and the events about it.

use super::{Apply, Envelope, Run, Session, StepStatus, Turn};
use crate::command::Settlement;
use crate::conversation::{CompactedMessages, CompactionKind};
use crate::event::{
    AttemptRef, CompactionRequested, ContextCompacted, ContextFull, Decided, SummaryAsked,
};
use crate::failure::Failure;
use crate::message::Usage;
use crate::pending::pending;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// A summary that the model of an attempt is to write before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryTask {
    /// What it is of.
    pub messages: CompactedMessages,
    /// What the model is asked, after the messages.
    pub prompt: String,
    /// Estimated tokens of the question. A lost answer is charged as so many.
    pub estimate: u64,
    /// Most tokens of the summary.
    pub max_output_tokens: u32,
    /// The model asked for it by a tool. If nothing comes of it, no person is asked.
    pub by_model: bool,
}

/// The next request of an attempt does not fit, and a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullContext {
    /// Why no compaction helps.
    pub cause: FullCause,
    /// Estimated tokens of the request.
    pub tokens: u64,
    /// Tokens of the window of the model.
    pub window: u64,
    /// Why the model wrote no summary.
    pub failure: Option<Failure>,
    /// When the person was asked, in milliseconds since 1970.
    pub since: u64,
}

/// Why no compaction helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FullCause {
    /// Nothing that is older than the last tool turn can go.
    NothingToCompact,
    /// The summary has as many tokens as what it would replace, or more.
    DoesNotShrink,
    /// The model wrote no summary.
    NoSummary,
}

impl Session {
    /// Adds what was used up beside replies to the totals of a step, its run and the session.
    pub(super) fn charge(&mut self, attempt: AttemptRef, usage: &Usage) -> Applied {
        self.step_mut(attempt)?.usage.add(usage);
        self.spend(attempt.run, usage)
    }

    /// The answer to a question for a summary does not count any more: it is charged as it was estimated.
    pub(super) fn drop_summary(&mut self, attempt: AttemptRef) -> Applied {
        let StepStatus::Running(running) = &mut self.step_mut(attempt)?.status else {
            return Ok(());
        };
        let Some(task) = running.summary.take() else {
            return Ok(());
        };
        running.rewrites += 1;
        self.charge(attempt, &Usage::of_lost_answer(task.estimate))
    }

    /// The same for all attempts of a run.
    pub(super) fn drop_summaries(&mut self, run: u32) -> Applied {
        let mut attempts = self.running_of(run).into_iter();
        attempts.try_for_each(|attempt| self.drop_summary(attempt))
    }

    pub(super) fn running_of(&self, run: u32) -> Vec<AttemptRef> {
        let running = self.run(run).into_iter().flat_map(Run::running_attempts);
        running.map(|(name, ..)| name).collect()
    }

    /// A client has changed a context. Its turn is compacted anew: what a summary was asked of before the mark
    /// may be gone, and what did not fit may fit now.
    pub(super) fn compact_anew(&mut self, context: &str) -> Applied {
        let Some(run) = self.active_turn_of(context).map(|run| run.number) else {
            return Ok(());
        };
        for name in self.running_of(run) {
            let running = self.attempt_mut(name)?;
            running.compacted_at = None;
            running.full = None;
            let is_before_mark = |task: &SummaryTask| !task.messages.behind_mark;
            if running.summary.as_ref().is_some_and(is_before_mark) {
                self.drop_summary(name)?;
            }
        }
        Ok(())
    }

    /// A person has decided about an attempt whose next request does not fit. It is compacted anew, or fails
    /// by the next event.
    pub(super) fn decide_full(&mut self, attempt: AttemptRef, decided: &Decided) -> Applied {
        let mut asked = pending(self).into_iter();
        if !asked.any(|asked| asked.id() == decided.pending) {
            return Err(IllegalTransition::missing(decided.pending));
        }
        let prompt = match &decided.settlement {
            Settlement::Retry | Settlement::Fail { .. } => None,
            Settlement::Answer { text } => Some(text.clone()),
            other => {
                let (what, verb) = (decided.pending, other.verb());
                return Err(IllegalTransition::not_allowed(what, "asked", verb));
            }
        };
        let running = self.attempt_mut(attempt)?;
        running.full = None;
        running.compacted_at = None;
        running.summary_prompt = prompt;
        Ok(())
    }
}

impl Apply for CompactionRequested {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let running = session.attempt_mut(self.attempt)?;
        running.wants_compaction = Some(self.keep_in_mind.clone());
        Ok(())
    }
}

impl Apply for SummaryAsked {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        if let Some(said) = session.conversation_of(self.attempt) {
            said.to_compact(&self.messages)?;
        }
        // One that was not asked, because it did not fit, costs nothing.
        if self.again {
            session.drop_summary(self.attempt)?;
        }
        let running = session.attempt_mut(self.attempt)?;
        running.rewrites += 1;
        running.summary = Some(SummaryTask {
            messages: self.messages,
            prompt: self.prompt.clone(),
            estimate: self.estimate,
            max_output_tokens: self.max_output_tokens,
            by_model: running.wants_compaction.is_some(),
        });
        Ok(())
    }
}

impl Apply for ContextCompacted {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        // A history view answers no question for a summary.
        if self.kind == CompactionKind::History {
            session.drop_summary(self.attempt)?;
        }
        session.charge(self.attempt, &self.usage)?;
        let is_of_run = session.turn(self.attempt).is_some_and(Turn::is_compaction);
        let running = session.attempt_mut(self.attempt)?;
        running.rewrites += 1;
        running.summary = None;
        running.wants_compaction = None;
        if self.tokens_before > 0 {
            running.compacted_at = Some(running.tool_turns);
        }
        // A run that only compacts may need another summary.
        if !is_of_run {
            running.summary_prompt = None;
        }
        let turn = session.turn(self.attempt);
        let context = turn.map(|turn| turn.context.clone());
        match context.filter(|_| !self.messages.behind_mark) {
            Some(name) => session.context_mut(&name)?.compact(&name, self),
            None => {
                let said = session.conversation_mut(self.attempt)?;
                said.compact(&self.messages, self.kind, self.text.clone())
            }
        }
    }
}

impl Apply for ContextFull {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let running = session.attempt_mut(self.attempt)?;
        running.rewrites += 1;
        match running.summary.take() {
            Some(task) if task.by_model => running.wants_compaction = None,
            _ => {
                running.times_full += 1;
                running.full = Some(FullContext {
                    cause: self.cause,
                    tokens: self.tokens,
                    window: self.window,
                    failure: self.failure.clone(),
                    since: envelope.at,
                });
            }
        }
        session.charge(self.attempt, &self.usage)
    }
}
