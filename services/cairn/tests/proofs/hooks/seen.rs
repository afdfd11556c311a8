//! What a client sees of a run.

use super::follows::End;
use cairn_engine::hooks::{Gate, Point};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind as Event;

/// What was seen of one run, in which one point matters.
#[derive(Debug)]
pub(super) struct Seen {
    run: u32,
    point: Point,
    /// The first answer at the point.
    pub(super) answered: Option<wire::HooksAnswered>,
    /// How often a person was asked.
    pub(super) decisions: usize,
    pub(super) skipped: Option<wire::StepSkipped>,
    pub(super) failure: Option<wire::Failure>,
    has_result: bool,
    has_ended: bool,
}

impl Seen {
    pub(super) fn of(run: u32, point: Point) -> Self {
        Self {
            run,
            point,
            answered: None,
            decisions: 0,
            skipped: None,
            failure: None,
            has_result: false,
            has_ended: false,
        }
    }

    /// Events of other runs count nothing.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::HooksAnswered(answered) if self.answered.is_none() => {
                let gate = answered.gate.unwrap_or_default();
                if gate.point() == wire::HookPoint::from(self.point) {
                    self.answered = Some(answered.clone());
                }
            }
            Event::RunWaiting(waiting) if waiting.run == self.run => self.decisions += 1,
            Event::StepSkipped(skipped) if skipped.run == self.run => {
                self.skipped = Some(skipped.clone());
            }
            Event::StepCompleted(completed) => {
                let run = completed.attempt.unwrap_or_default().run;
                self.has_result |= run == self.run;
            }
            Event::RunCompleted(completed) if completed.run == self.run => self.has_ended = true,
            Event::RunFailed(failed) if failed.run == self.run => {
                self.has_ended = true;
                self.failure.clone_from(&failed.failure);
            }
            _ => {}
        }
    }

    /// Nothing follows that matters.
    pub(super) fn is_over(&self) -> bool {
        self.answered.is_some() && self.has_ended
    }

    /// How the run ended, if it has.
    pub(super) fn end(&self, hook: &str) -> Option<End> {
        let begins = format!("hook '{hook}' blocked {}", self.point.name());
        let end = match &self.failure {
            None => End::Completed,
            Some(failure)
                if failure.kind() != wire::FailureKind::HookBlocked
                    || !failure.message.starts_with(&begins) =>
            {
                End::Failed
            }
            Some(_) if self.has_result => End::BlockedAfterwards,
            Some(_) => End::Blocked,
        };
        self.has_ended.then_some(end)
    }

    /// The key of the question that was answered.
    pub(super) fn key(&self, session: &str, hook: &str) -> Option<String> {
        let gate = self.answered.as_ref()?.gate?;
        let gate = Gate::try_from(gate).ok()?;
        Some(gate.key("default", session, hook))
    }
}
