//! A run that compacts a context, followed to its end.

use crate::client::{Client, Watched};
use crate::error::{CliError, INTERRUPTED};
use crate::ui::compaction::became;
use crate::ui::event_line::failure_text;
use cairn_engine::text::counted;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{AttemptRef, CompactionKind, ContextCompacted, Usage};
use cairn_proto::orchestrator::CompactContextResponse;

/// A run that compacts a context.
#[derive(Debug)]
pub(in crate::commands) struct Compacting {
    session: String,
    run: u32,
    /// The event after which the next one is read.
    after: u64,
    /// It has replaced a part of the messages: they may be too many for one summary.
    has_replaced: bool,
}

/// What happens in it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) enum Happened {
    /// A summary took the place of messages.
    Replaced(Replaced),
    /// It waits for a person, for this `WaitReason`.
    Waits(i32),
    /// A person paused it.
    Paused,
    /// It continues after that.
    Continues,
    /// It has ended, and all messages that were to go are replaced.
    Completed,
    /// It has ended without that: why, escaped.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// Messages gave way to a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::commands) struct Replaced {
    kind: CompactionKind,
    /// How many messages.
    pub(in crate::commands) messages: u32,
    /// Estimated tokens of a request before it.
    pub(in crate::commands) tokens_before: u64,
    /// Estimated tokens of a request after it.
    pub(in crate::commands) tokens_after: u64,
    /// The version of the context after it.
    pub(in crate::commands) version: u64,
    /// What the summary used up.
    pub(in crate::commands) usage: Usage,
    /// Milliseconds that the model took.
    pub(in crate::commands) duration_ms: u64,
}

impl Replaced {
    fn of(event: &ContextCompacted) -> Self {
        Self {
            kind: event.kind(),
            messages: event.replaced,
            tokens_before: event.tokens_before,
            tokens_after: event.tokens_after,
            version: event.version,
            usage: event.usage.unwrap_or_default(),
            duration_ms: event.duration_ms,
        }
    }

    /// In words: `34 messages became a summary (about 5,600 → 1,200 tokens)`.
    pub(in crate::commands) fn to_line(self) -> String {
        let (before, after) = (self.tokens_before, self.tokens_after);
        became(self.kind, self.messages, before, after)
    }
}

impl Compacting {
    /// The run that a request has started; none if all messages stay.
    pub(in crate::commands) fn of(session: &str, started: &CompactContextResponse) -> Option<Self> {
        (started.run > 0).then(|| Self {
            session: session.to_owned(),
            run: started.run,
            after: started.seq,
            has_replaced: false,
        })
    }

    /// Its number.
    pub(in crate::commands) fn run(&self) -> u32 {
        self.run
    }

    /// What stays if it ends now, in words.
    pub(in crate::commands) fn what_stays(&self) -> &'static str {
        match self.has_replaced {
            true => "the messages that no summary has replaced stay",
            false => "its messages stay",
        }
    }

    /// Waits for what happens next. Safe to drop at any moment: the next call continues. Not to be called again
    /// after the run has ended.
    ///
    /// # Errors
    /// An interruption, services that stay out of reach, or a session that is deleted.
    pub(in crate::commands) async fn next(
        &mut self,
        client: &mut Client<'_>,
    ) -> Result<Happened, CliError> {
        let stop = client.context().stop.clone();
        let mut events = client.watch(&self.session, self.after);
        while let Some(watched) = events.next().await? {
            let Watched::Event { seq, event } = watched else {
                continue;
            };
            self.after = seq;
            let happened = event.kind.as_ref().and_then(|kind| of_run(kind, self.run));
            if let Some(happened) = happened {
                self.has_replaced |= matches!(happened, Happened::Replaced(_));
                return Ok(happened);
            }
        }
        Err(match stop.is_cancelled() {
            true => CliError::new("interrupted").code(INTERRUPTED),
            false => CliError::new(format!("session {} was deleted", self.session)),
        })
    }
}

/// What an event says of the run; none for one of another run, or that is of no concern.
fn of_run(kind: &Kind, run: u32) -> Option<Happened> {
    let is_of_run = |attempt: Option<AttemptRef>| attempt.is_some_and(|it| it.run == run);
    let happened = match kind {
        Kind::ContextCompacted(e) if is_of_run(e.attempt) => Happened::Replaced(Replaced::of(e)),
        Kind::RunWaiting(e) if e.run == run => Happened::Waits(e.reason),
        Kind::RunPaused(e) if e.run == run => Happened::Paused,
        Kind::RunResumed(e) if e.run == run => Happened::Continues,
        Kind::RunCompleted(e) if e.run == run => Happened::Completed,
        Kind::RunFailed(e) if e.run == run => Happened::Failed(failure_text(e.failure.as_ref())),
        Kind::RunCancelled(e) if e.run == run => Happened::Cancelled,
        _ => return None,
    };
    Some(happened)
}

/// Why nothing is compacted when so many of the latest messages are to stay.
pub(in crate::commands) fn nothing_older(keep: u32) -> String {
    match keep {
        0 => "there are no messages to compact".to_owned(),
        keep => format!(
            "there is nothing to compact: no message is older than the latest {}",
            counted(keep, "message")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{RunCompleted, RunFailed};

    #[test]
    fn only_the_events_of_the_run_count() {
        let completed = |run| {
            Kind::RunCompleted(RunCompleted {
                run,
                ..RunCompleted::default()
            })
        };
        assert_eq!(of_run(&completed(4), 4), Some(Happened::Completed));
        assert_eq!(of_run(&completed(3), 4), None);
        let failed = Kind::RunFailed(RunFailed {
            run: 4,
            ..RunFailed::default()
        });
        let why = "no reason given".to_owned();
        assert_eq!(of_run(&failed, 4), Some(Happened::Failed(why)));
        let compacted = |run| {
            Kind::ContextCompacted(ContextCompacted {
                attempt: Some(AttemptRef {
                    run,
                    step: 1,
                    attempt: 1,
                }),
                kind: CompactionKind::Summary.into(),
                replaced: 34,
                tokens_before: 5_600,
                tokens_after: 1_200,
                ..ContextCompacted::default()
            })
        };
        assert_eq!(of_run(&compacted(3), 4), None);
        let Some(Happened::Replaced(replaced)) = of_run(&compacted(4), 4) else {
            panic!("it is of the run");
        };
        let line = "34 messages became a summary (about 5,600 → 1,200 tokens)";
        assert_eq!(replaced.to_line(), line);
    }

    #[test]
    fn a_request_that_keeps_all_says_so() {
        assert_eq!(nothing_older(0), "there are no messages to compact");
        let why = "there is nothing to compact: no message is older than the latest 4 messages";
        assert_eq!(nothing_older(4), why);
    }
}
