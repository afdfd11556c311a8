//! Compactions that a model or a person asks for.

use super::candidates::Asked;
use super::cuts::{Part, older_messages};
use crate::command::CompactContext;
use crate::decide::tools::compactions;
use crate::decide::{Decision, words};
use crate::event::{AttemptRef, CompactionRequested, StepCompleted, SummaryAsked};
use crate::session::Run;
use crate::transitions::Applied;

impl Decision<'_> {
    /// Answers the calls of `compact`, once the other calls of their reply have ended.
    pub(in crate::decide) fn answer_compaction(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let Some(asked) = running.and_then(|running| compactions(running, attempt)) else {
            return Ok(());
        };
        let keep_in_mind = asked.keep_in_mind;
        let has_older = self.wanted(attempt, &keep_in_mind).is_some();
        let answer = match (asked.ends_step, has_older) {
            (true, _) => words::ENDS_INSTEAD,
            (false, true) => words::COMPACTS,
            (false, false) => words::NOTHING_OLDER,
        };
        self.finish_call(asked.call, answer.to_owned(), "")?;
        for call in asked.repeated {
            self.finish_call(call, words::COMPACTS_ONCE.to_owned(), "")?;
        }
        if asked.ends_step || !has_older {
            return Ok(());
        }
        self.emit(CompactionRequested {
            attempt,
            keep_in_mind,
        })?;
        self.ask_for_model(attempt)
    }

    /// The question for a summary that the model wants, and its prompt. None if nothing is older than what
    /// stays, or if the conversation is being compacted already.
    fn wanted(&self, attempt: AttemptRef, keep_in_mind: &str) -> Option<(Asked, String)> {
        let running = self.session.attempt(attempt)?;
        if running.summary.is_some() || running.full.is_some() {
            return None;
        }
        let (own, size) = (running.summary_prompt.as_deref(), self.own_size(attempt)?);
        let prompt = self.summary_prompt(own, keep_in_mind, size);
        let request = self.request_of(attempt, size)?;
        let asked = request.summary_beyond(self.compaction_of(attempt).keep_turns, &prompt)?;
        Some((asked, prompt))
    }

    /// The summary that the model wants is asked for, if it may be.
    pub(super) fn ask_for_model(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let keep = running.and_then(|running| running.wants_compaction.as_deref());
        let wanted = keep.and_then(|keep| self.wanted(attempt, keep));
        match (wanted, self.own_size(attempt)) {
            (Some((asked, prompt)), Some(size)) if self.may_begin(attempt.run) => {
                match self.may_compact(attempt)? {
                    true => self.ask_for_summary(attempt, asked, prompt, size),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A run that only compacts asks for the next summary, and ends when no message is left that is to go. The
    /// messages may be too many for one.
    pub(super) fn ask_next_of_run(
        &mut self,
        attempt: AttemptRef,
        compact: &CompactContext,
    ) -> Applied {
        if !self.may_begin(attempt.run) {
            return Ok(());
        }
        let size = self.own_size(attempt);
        let request = size.and_then(|size| self.request_of(attempt, size));
        let Some(request) = request else {
            return Ok(());
        };
        let older = older_messages(&request.conversation.incremental, compact.keep);
        if older == 0 {
            return self.emit(StepCompleted::of_turn(attempt));
        }
        let part = Part {
            is_behind: false,
            range: 0..older,
        };
        let running = self.session.attempt(attempt);
        let own = running.and_then(|running| running.summary_prompt.as_deref());
        let own = own.or(compact.prompt.as_deref());
        let prompt = self.summary_prompt(own, &compact.keep_in_mind, request.size);
        let (asked, size) = (request.summary_of(part, &prompt), request.size);
        match self.may_compact(attempt)? {
            true => self.ask_for_summary(attempt, asked, prompt, size),
            false => Ok(()),
        }
    }

    /// The answer to the question for a summary was lost with its executor or owner. It is charged as it was
    /// estimated, and asked for again if that begins now.
    pub(in crate::decide) fn ask_summary_again(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let task = running.and_then(|running| running.summary.clone());
        let begins = |run: &Run| run.attempts_to_run(|_| false).any(|name| name == attempt);
        let run = self.session.run(attempt.run).filter(|_| self.facts.starts);
        let Some(task) = task.filter(|_| run.is_some_and(begins)) else {
            return Ok(());
        };
        self.emit(SummaryAsked {
            attempt,
            messages: task.messages,
            prompt: task.prompt,
            estimate: task.estimate,
            max_output_tokens: task.max_output_tokens,
            again: true,
        })
    }

    /// The attempts whose models were asked for summaries, with a number that another question changes.
    pub(in crate::decide) fn asked_for_summaries(
        &self,
        attempts: &[AttemptRef],
    ) -> Vec<(AttemptRef, u32)> {
        let asked = attempts.iter().filter_map(|name| {
            let running = self.session.attempt(*name)?;
            let is_asked = running.summary.is_some();
            is_asked.then_some((*name, running.rewrites))
        });
        asked.collect()
    }
}
