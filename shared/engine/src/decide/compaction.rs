//! Decides what becomes of a conversation that takes too much of the window of its model.
//!
//! The executor reports a request that is too long, and does not ask the model. Then older messages give way:
//! to a history view at once, or to a summary, for which the model is asked first. Either way the attempt
//! continues with a new executor. If nothing helps, a person is asked. At most one compaction for tokens takes
//! effect before a tool turn.

mod asked;
mod bytes;
mod candidates;
mod cuts;
mod hooked;
mod notice;
mod room;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use cuts::older_messages;

use super::{Compaction, Decision, FullRequest, Summarised, words};
use crate::command::{CompactContext, WhenFull};
use crate::conversation::{CompactedMessages, CompactionKind, Conversation, Op, Reminder};
use crate::event::{AttemptRef, ContextChanged, ContextCompacted, ContextFull, SummaryAsked};
use crate::failure::{Failure, FailureKind};
use crate::message::{Message, Usage};
use crate::session::{Call, FullCause, Purpose, SummaryTask};
use crate::tokens::{estimate_tokens, of_message, of_text};
use crate::transitions::{Applied, IllegalTransition};
use candidates::{Asked, Choice, Request};
use cuts::{Cuts, Unit, part_of};
use room::{Room, Scale};

impl Decision<'_> {
    /// The model of an attempt is asked next, once the calls of its last reply have ended: what was asked for
    /// before its request is decided.
    pub(super) fn compact_before_request(&mut self, attempt: AttemptRef) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let is_open = !running.calls.iter().all(Call::is_finished);
        if is_open || self.is_tool_step(attempt) {
            return Ok(());
        }
        if running.summary.is_some() || running.full.is_some() || running.is_gated() {
            return Ok(());
        }
        if let Some(compact) = self.compacts(attempt).cloned() {
            return self.ask_next_of_run(attempt, &compact);
        }
        if running.wants_compaction.is_some() {
            self.ask_for_model(attempt)?;
        }
        self.compact_bytes(attempt)
    }

    /// The next request of an attempt takes too much of the window. `was_asked`: the executor was to ask for a
    /// summary, and the request is that.
    pub(super) fn request_full(
        &mut self,
        attempt: AttemptRef,
        size: FullRequest,
        was_asked: bool,
    ) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let is_open = !running.calls.iter().all(Call::is_finished);
        if is_open || running.full.is_some() || size.window == 0 || !self.may_begin(attempt.run) {
            return Ok(());
        }
        match &running.summary {
            Some(task) if was_asked => {
                let task = task.clone();
                return self.ask_for_less(attempt, &task, size);
            }
            // It was asked for since.
            Some(_) => return Ok(()),
            None if running.is_gated() => return Ok(()),
            None => {}
        }
        if self.session.when_full(attempt) == WhenFull::Refuse {
            return Ok(());
        }
        if running.compacted_at == Some(running.tool_turns) {
            return self.wait_if_too_long(attempt, size);
        }
        let own = running.summary_prompt.as_deref();
        let keep = running.wants_compaction.as_deref().unwrap_or_default();
        let prompt = self.summary_prompt(own, keep, size);
        let request = self.request_of(attempt, size);
        let choice =
            request.and_then(|it| it.choose(self.compaction_of(attempt), &prompt, own.is_some()));
        if choice.is_some() && !self.may_compact(attempt)? {
            return Ok(());
        }
        match choice {
            Some(Choice::History { messages, text }) => {
                let compacted = self.compacted(attempt, messages, CompactionKind::History, text)?;
                self.emit(compacted)?;
                self.tell_compaction(attempt)
            }
            Some(Choice::Summary(asked)) => self.ask_for_summary(attempt, asked, prompt, size),
            None => self.wait_if_too_long(attempt, size),
        }
    }

    /// When and how far the conversation of an attempt is compacted.
    fn compaction_of(&self, attempt: AttemptRef) -> Compaction {
        self.session.compaction(attempt, self.facts.compaction)
    }

    /// No compaction helps. A request that fits all the same is made: the executor continues with the
    /// acknowledgement. Of one that its provider refused, the executor reports the provider's words.
    fn wait_if_too_long(&mut self, attempt: AttemptRef, size: FullRequest) -> Applied {
        let fits = Room::new(size.window, size.max_output_tokens).has(size.tokens);
        match fits || size.is_refused {
            true => Ok(()),
            false => self.emit(too_long(attempt, size)),
        }
    }

    /// The question for a summary does not fit. One that has less of the messages may.
    fn ask_for_less(
        &mut self,
        attempt: AttemptRef,
        task: &SummaryTask,
        size: FullRequest,
    ) -> Applied {
        let room = Room::new(size.window, size.max_output_tokens);
        // The window was not known before the executor named it.
        let is_too_generous = task.max_output_tokens > room.summary();
        let same = (is_too_generous && size.tokens <= room.question()).then_some(Asked {
            messages: task.messages,
            estimate: size.tokens,
        });
        let prompt = match is_too_generous {
            true => self.prompt_anew(attempt, size),
            false => task.prompt.clone(),
        };
        match same.or_else(|| self.less(attempt, task, size)) {
            Some(asked) => self.emit(SummaryAsked {
                attempt,
                messages: asked.messages,
                prompt,
                estimate: asked.estimate,
                max_output_tokens: task.max_output_tokens.min(room.summary()),
                again: false,
            }),
            None => self.give_up(too_long(attempt, size)),
        }
    }

    /// The prompt of a summary that is asked for, with the words that its answer has room for.
    fn prompt_anew(&self, attempt: AttemptRef, size: FullRequest) -> String {
        let running = self.session.attempt(attempt);
        let own = running.and_then(|it| it.summary_prompt.as_deref());
        if let Some(compact) = self.compacts(attempt) {
            let own = own.or(compact.prompt.as_deref());
            return self.summary_prompt(own, &compact.keep_in_mind, size);
        }
        let keep = running.and_then(|it| it.wants_compaction.as_deref());
        self.summary_prompt(own, keep.unwrap_or_default(), size)
    }

    /// The longest question with less of the messages that fits, if there is one.
    fn less(&self, attempt: AttemptRef, task: &SummaryTask, size: FullRequest) -> Option<Asked> {
        let said = self.session.conversation_of(attempt)?;
        let unit = match self.compacts(attempt) {
            Some(_) => Unit::Message,
            None => Unit::ToolTurn,
        };
        let cuts = Cuts::new(said, self.session.turn(attempt).is_some(), unit);
        let whole = part_of(said, &task.messages)?;
        let entries = cuts.entries(&whole);
        let scale = Scale::new(size.tokens, size.estimated_tokens);
        let room = Room::new(size.window, size.max_output_tokens);
        // Each part begins like the longer one before it, so no message is estimated twice.
        let (mut end, mut left_out) = (entries.len(), 0_u64);
        cuts.shorter(&whole).find_map(|part| {
            let more = entries.get(part.range.len()..end).unwrap_or_default();
            end = part.range.len();
            left_out += more
                .iter()
                .map(|entry| of_message(&entry.message))
                .sum::<u64>();
            let estimate = size.tokens.saturating_sub(scale.of(left_out));
            let messages = CompactedMessages {
                with_compressed: task.messages.with_compressed,
                ..cuts.named(&part)
            };
            (estimate <= room.question()).then_some(Asked { messages, estimate })
        })
    }

    /// What became of the question for a summary. Nothing follows for one that does not count any more: it was
    /// charged when it ceased to count.
    pub(super) fn summarised(&mut self, attempt: AttemptRef, summarised: Summarised) -> Applied {
        let running = self.session.attempt(attempt);
        let Some(task) = running.and_then(|running| running.summary.clone()) else {
            return Ok(());
        };
        let Summarised {
            outcome,
            usage,
            provider,
            model,
            duration_ms,
        } = summarised;
        let none = |cause, failure| ContextFull {
            attempt,
            cause,
            tokens: 0,
            window: 0,
            failure,
            usage,
            provider: provider.clone(),
            model: model.clone(),
            duration_ms,
        };
        let text = match outcome {
            Ok(text) if !text.trim().is_empty() => words::summary(&text),
            Ok(_) => {
                let failure = Failure::new(FailureKind::Llm, "EmptySummary", "it wrote nothing");
                return self.give_up(none(FullCause::NoSummary, Some(failure)));
            }
            Err(failure) => return self.give_up(none(FullCause::NoSummary, Some(failure))),
        };
        match self.is_shorter(attempt, &task.messages, &text) {
            None => return self.give_up(none(FullCause::NothingToCompact, None)),
            Some(false) => return self.give_up(none(FullCause::DoesNotShrink, None)),
            Some(true) => {}
        }
        let compacted = self.compacted(attempt, task.messages, CompactionKind::Summary, text)?;
        self.emit(ContextCompacted {
            usage,
            provider,
            model,
            duration_ms,
            ..compacted
        })?;
        match self.compacts(attempt) {
            Some(_) => Ok(()),
            None => self.tell_compaction(attempt),
        }
    }

    /// Whether a summary has fewer tokens than what it would replace. None if that is gone. What a person has
    /// asked for need not be shorter.
    fn is_shorter(
        &self,
        attempt: AttemptRef,
        messages: &CompactedMessages,
        text: &str,
    ) -> Option<bool> {
        let said = self.session.conversation_of(attempt)?;
        let replaced = said.replaced_by(CompactionKind::Summary, messages).ok()?;
        let replaced = replaced.iter().map(|entry| of_message(&entry.message));
        let is_shorter = of_message(&Message::user(text)) < replaced.sum::<u64>();
        Some(is_shorter || self.compacts(attempt).is_some())
    }

    /// No summary takes the place of messages. What the model asked for needs no person, and a run that only
    /// compacts fails.
    fn give_up(&mut self, full: ContextFull) -> Applied {
        let attempt = full.attempt;
        let running = self.session.attempt(attempt);
        let task = running.and_then(|running| running.summary.as_ref());
        let by_model = task.is_some_and(|task| task.by_model);
        let size = self.own_size(attempt);
        let full = match (full.window, size) {
            (0, Some(size)) => ContextFull {
                tokens: size.tokens,
                window: size.window,
                ..full
            },
            _ => full,
        };
        let failure = self.compacts(attempt).map(|_| failure_of_run(&full));
        self.emit(full)?;
        if let Some(failure) = failure {
            return self.fail_step(attempt, failure);
        }
        match by_model {
            true => {
                let told = Op::Notice(words::NOT_COMPACTED.to_owned());
                self.emit(ContextChanged::of_attempt(attempt, vec![told]))
            }
            false => Ok(()),
        }
    }

    /// What makes a run compact its context and do nothing else. Its model is told and asked nothing else.
    pub(super) fn compacts(&self, attempt: AttemptRef) -> Option<&CompactContext> {
        match &self.session.turn(attempt)?.purpose {
            Purpose::Compact(compact) => Some(compact),
            Purpose::Reply | Purpose::Conclude => None,
        }
    }

    /// The question for a summary, with the words that its answer has room for.
    fn summary_prompt(&self, own: Option<&str>, keep_in_mind: &str, size: FullRequest) -> String {
        let most = Room::new(size.window, size.max_output_tokens).summary();
        words::summary_prompt(self.facts.prompts, own, keep_in_mind, most)
    }

    /// The model of an attempt is to write a summary.
    fn ask_for_summary(
        &mut self,
        attempt: AttemptRef,
        asked: Asked,
        prompt: String,
        size: FullRequest,
    ) -> Applied {
        let room = Room::new(size.window, size.max_output_tokens);
        self.emit(SummaryAsked {
            attempt,
            messages: asked.messages,
            prompt,
            estimate: asked.estimate,
            max_output_tokens: room.summary(),
            again: false,
        })
    }

    /// The event by which a text takes the place of messages, at no cost.
    fn compacted(
        &self,
        attempt: AttemptRef,
        messages: CompactedMessages,
        kind: CompactionKind,
        text: String,
    ) -> Result<ContextCompacted, IllegalTransition> {
        let said = self.session.conversation_of(attempt);
        let said = said.ok_or_else(|| IllegalTransition::missing(format!("{attempt:?}")))?;
        let mut after = said.clone();
        after.compact(&messages, kind, text.clone())?;
        let before = self.tokens_of(attempt, said);
        Ok(ContextCompacted {
            // 0 would say that tokens are not the reason.
            tokens_before: before.max(1),
            tokens_after: self.tokens_of(attempt, &after),
            ..self.compacted_uncounted(attempt, messages, kind, text)?
        })
    }

    /// The same without tokens: because of bytes.
    fn compacted_uncounted(
        &self,
        attempt: AttemptRef,
        messages: CompactedMessages,
        kind: CompactionKind,
        text: String,
    ) -> Result<ContextCompacted, IllegalTransition> {
        let said = self.session.conversation_of(attempt);
        let said = said.ok_or_else(|| IllegalTransition::missing(format!("{attempt:?}")))?;
        let replaced = said.replaced_by(kind, &messages)?.len();
        let turn = self.session.turn(attempt);
        let context = turn.map(|turn| turn.context.clone()).unwrap_or_default();
        let version = match turn.and_then(|turn| self.session.context(&turn.context)) {
            Some(known) if !messages.behind_mark => known.version + 1,
            _ => 0,
        };
        Ok(ContextCompacted {
            attempt,
            context,
            messages,
            kind,
            text,
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
            version,
            replaced: u32::try_from(replaced).unwrap_or(u32::MAX),
            tokens_before: 0,
            tokens_after: 0,
        })
    }

    /// The next request of an attempt, of that size.
    fn request_of(&self, attempt: AttemptRef, size: FullRequest) -> Option<Request<'_>> {
        Some(Request {
            conversation: self.session.conversation_of(attempt)?,
            is_turn: self.session.turn(attempt).is_some(),
            newer: self.newer(attempt),
            notice: self.size_of_notice(attempt),
            size,
        })
    }

    /// What the owner knows of the size of the next request. The tools are not in it, which the executor adds.
    fn own_size(&self, attempt: AttemptRef) -> Option<FullRequest> {
        let run = self.session.run(attempt.run)?;
        let said = self.session.conversation_of(attempt)?;
        let options = run.turn.as_ref().map(|turn| &turn.options);
        let max_output_tokens = options.and_then(|options| options.max_output_tokens);
        Some(FullRequest {
            tokens: self.tokens_of(attempt, said),
            estimated_tokens: estimate_tokens(&said.messages()) + self.newer(attempt),
            window: self.session.estimates.of(&run.model).window,
            max_output_tokens: max_output_tokens.unwrap_or_default(),
            is_refused: false,
        })
    }

    /// Tokens of the next request of an attempt if its conversation is this one, without tools.
    fn tokens_of(&self, attempt: AttemptRef, said: &Conversation) -> u64 {
        let model = self.session.run(attempt.run).map(|run| &*run.model);
        let known = self.session.estimates.of(model.unwrap_or_default());
        let estimate = estimate_tokens(&said.messages()) + self.newer(attempt);
        Scale::permille(known.permille).of(estimate)
    }

    /// The estimate of what a request has behind the conversation: results of the last calls, changes that no
    /// reply has seen, and the notes of a context.
    fn newer(&self, attempt: AttemptRef) -> u64 {
        let Some(running) = self.session.attempt(attempt) else {
            return 0;
        };
        let results = running.calls.iter().filter_map(Call::result);
        let results: u64 = results.map(|result| of_message(&result)).sum();
        let changes = running.waiting_ops.iter().map(|op| match op {
            Op::Append(message) => of_message(message),
            Op::Remind(Reminder { text, .. }) | Op::Notice(text) => of_text(text),
            _ => 0,
        });
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let notes = context.map_or(0, |context| {
            of_text(&context.notes_frame.around(&context.notes))
        });
        results + changes.sum::<u64>() + notes
    }
}

/// A request fits into no window, and nothing was asked of a model.
fn too_long(attempt: AttemptRef, size: FullRequest) -> ContextFull {
    ContextFull {
        attempt,
        cause: FullCause::NothingToCompact,
        tokens: size.tokens,
        window: size.window,
        failure: None,
        usage: Usage::default(),
        provider: String::new(),
        model: String::new(),
        duration_ms: 0,
    }
}

/// Why a run fails that only compacts.
fn failure_of_run(full: &ContextFull) -> Failure {
    match &full.failure {
        Some(failure) => {
            let message = format!("the model wrote no summary: {failure}");
            Failure::new(FailureKind::Llm, "SUMMARY_FAILED", message)
        }
        None => {
            let (tokens, window) = (full.tokens, full.window);
            let message = format!(
                "the question for a summary has {tokens} tokens and does not fit into the window of \
                 {window}; take a model with a larger window, or remove messages"
            );
            Failure::new(FailureKind::LimitExceeded, "CONTEXT_FULL", message)
        }
    }
}
