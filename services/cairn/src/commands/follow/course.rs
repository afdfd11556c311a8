//! How far a followed run is, and whether it stands still.

use super::looked::Looked;
use super::trace::Trace;
use super::underway::Underway;
use super::{Following, Orchestrator};
use crate::error::CliError;
use crate::ui::progress::{Progress, StepState};
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, WaitReason};
use cairn_proto::orchestrator::{ListPendingRequest, Pending};
use std::collections::BTreeSet;
use std::time::Instant;

/// Why nothing more is followed for now.
#[derive(Debug)]
pub(super) enum Stand {
    /// The run has ended, is paused, or waits for a person who is not here.
    Still,
    /// It waits for the person who is here.
    Asks(Box<Pending>),
}

/// How far a followed run is.
#[derive(Debug)]
pub(super) struct Course {
    /// What is shown of it.
    pub(super) progress: Progress,
    /// Its calls with side effects.
    pub(super) underway: Underway,
    trace: Option<Trace>,
    asked: Asked,
    looked: Looked,
    /// The last event that was read.
    after: u64,
}

impl Course {
    /// At the beginning, which is now.
    ///
    /// # Errors
    /// The folder of the execution tree cannot be made.
    pub(super) fn new(what: &Following, now: Instant) -> Result<Self, CliError> {
        Ok(Self {
            progress: Progress::new(what.run, what.seen_before),
            underway: Underway::default(),
            trace: what.tree_dir.clone().map(Trace::new).transpose()?,
            asked: Asked::default(),
            looked: Looked::since(now),
            after: what.after,
        })
    }

    /// The events are read from here on, until they are all there are.
    pub(super) fn begin(&mut self) -> u64 {
        self.asked.is_caught_up = false;
        self.after
    }

    /// The events so far are all there are now.
    pub(super) fn caught_up(&mut self) {
        self.asked.is_caught_up = true;
    }

    /// Takes the next event. False if it belongs to another run, or to none.
    pub(super) fn take(&mut self, seq: u64, event: &Event, what: &Following) -> bool {
        self.after = seq;
        self.asked.take(seq, event);
        self.underway.take(event);
        self.asked.is_history = seq < what.seen_before;
        let is_own = self.progress.apply(seq, event);
        if is_own {
            if seq > what.seen_before {
                self.looked.take(event);
            }
            self.trace.iter_mut().for_each(Trace::changed);
        }
        is_own
    }

    /// Whether the run may stand still from now on although nothing has happened in it. True once.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.looked.is_due(now)
    }

    /// Writes the execution tree if it has changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) async fn dump(
        &mut self,
        orchestrator: &mut Orchestrator,
        what: &Following,
    ) -> Result<(), CliError> {
        match &mut self.trace {
            Some(trace) => trace.write(orchestrator, what).await,
            None => Ok(()),
        }
    }

    /// Writes the execution tree in any case.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) async fn dump_now(
        &mut self,
        orchestrator: &mut Orchestrator,
        what: &Following,
    ) -> Result<(), CliError> {
        self.trace.iter_mut().for_each(Trace::changed);
        self.dump(orchestrator, what).await
    }

    /// Whether the run has ended, or goes on only when a person acts. A person who is here is asked each question at
    /// once; for another one, steps that can continue do so first. A capability that no resource has is nothing to ask
    /// a person for; its owner first finds out whether the pool has it by now.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn stand(
        &self,
        orchestrator: &mut Orchestrator,
        what: &Following,
        has_person: bool,
    ) -> Result<Option<Stand>, CliError> {
        // A run that had ended may have been opened again before this command began.
        if self.progress.end.is_some() && !self.asked.is_history {
            return Ok(Some(Stand::Still));
        }
        if !self.asked.is_settled() {
            return Ok(None);
        }
        match (&self.progress.paused, self.progress.waits) {
            (Some(_), _) => Ok(Some(Stand::Still)),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let mut open = open(orchestrator, what).await?;
                open.retain(|question| self.looked.counts(question));
                if has_person {
                    open.retain(|question| !question.answered);
                    let is_asked = |question: &Pending| question.reason() != WaitReason::Capability;
                    let first = open.iter().position(is_asked);
                    if let Some(first) = first {
                        return Ok(Some(Stand::Asks(Box::new(open.swap_remove(first)))));
                    }
                }
                Ok(is_stuck(&open, &self.progress).then_some(Stand::Still))
            }
        }
    }
}

/// The questions of the run that have not taken effect.
async fn open(orchestrator: &mut Orchestrator, what: &Following) -> Result<Vec<Pending>, CliError> {
    let request = ListPendingRequest {
        session: what.session.clone(),
        ..ListPendingRequest::default()
    };
    let listed = orchestrator.list_pending(request).await?;
    let mut open = listed.into_inner().pending;
    open.retain(|question| question.run == what.run);
    Ok(open)
}

/// Whether the run stands still until a person decides.
fn is_stuck(open: &[Pending], progress: &Progress) -> bool {
    // An answer that was given takes effect by itself; without a question the run continues already.
    if open.is_empty() || open.iter().any(|question| question.answered) {
        return false;
    }
    let asks_for_all = open.iter().any(|question| question.step == 0);
    let mut running = progress.running();
    let all_wait = running.all(|(step, _)| open.iter().any(|question| question.step == step));
    asks_for_all || all_wait || progress.count(StepState::Running) == 0
}

/// What was asked of the session and has no answer yet: it may be what the run waits for.
#[derive(Debug, Default)]
struct Asked {
    is_caught_up: bool,
    /// More events follow that were there before this command.
    is_history: bool,
    open: BTreeSet<u64>,
}

impl Asked {
    fn take(&mut self, seq: u64, event: &Event) {
        self.open.remove(&event.answers);
        match &event.kind {
            Some(Kind::CommandReceived(_)) => {
                self.open.insert(seq);
            }
            // Commands without an answer are the other session's alone.
            Some(Kind::ForkedFrom(_)) => self.open.clear(),
            // The denial of a plan is answered, and another plan is on its way.
            Some(Kind::RevisionRequested(requested)) => {
                self.open.insert(requested.request);
            }
            Some(Kind::PlanApplied(applied)) => {
                self.open.remove(&applied.request);
            }
            Some(Kind::PlanProposed(proposed)) => {
                self.open.remove(&proposed.request);
            }
            Some(Kind::RevisionFailed(failed)) => {
                self.open.remove(&failed.request);
            }
            _ => {}
        }
    }

    /// Whether the journal was read to its end, and everything in it was answered.
    fn is_settled(&self) -> bool {
        self.is_caught_up && self.open.is_empty()
    }
}
