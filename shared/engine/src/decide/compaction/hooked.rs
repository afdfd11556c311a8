//! Asks hooks before older messages give way.

use crate::conversation::Op;
use crate::decide::{Decision, words};
use crate::event::{AttemptRef, ContextChanged, ContextFull};
use crate::failure::Failure;
use crate::hooks::{Gate, Outcome, Point, VerdictKind};
use crate::message::Usage;
use crate::session::FullCause;
use crate::transitions::{Applied, IllegalTransition};

impl Decision<'_> {
    /// Whether older messages may give way now. Otherwise hooks are asked first, and it is tried again when they have
    /// answered. What they let pass counts until the next tool turn, or until a person has decided.
    pub(super) fn may_compact(&mut self, attempt: AttemptRef) -> Result<bool, IllegalTransition> {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(false);
        };
        if running.is_gated() {
            return Ok(false);
        }
        let is_passed = running.compaction_asked == Some(running.times_full);
        if is_passed || !self.listens(attempt.run, Point::OnCompaction) {
            return Ok(true);
        }
        let gate = Gate {
            index: running.times_full,
            ..Gate::of_attempt(Point::OnCompaction, attempt, running.tool_turns)
        };
        self.ask_hooks(gate)?;
        Ok(false)
    }

    /// Hooks answered whether older messages may give way. If not, a person is asked, as if no summary helped. What a
    /// model wanted by itself needs no person, and a run that only compacts fails.
    pub(in crate::decide) fn compaction_hooked(
        &mut self,
        gate: Gate,
        outcome: &Outcome,
        wants_compaction: bool,
    ) -> Applied {
        let attempt = gate.attempt;
        let is_passed = matches!(outcome.verdict, VerdictKind::Proceed | VerdictKind::Mutate);
        let failure = Failure::blocked(gate.point, outcome);
        if is_passed {
            self.prepare_request(attempt)?;
        } else if self.compacts(attempt).is_some() {
            self.fail_step(attempt, failure)?;
        } else if wants_compaction {
            let notice = Op::Notice(words::NOT_COMPACTED.to_owned());
            self.emit(ContextChanged::of_attempt(attempt, vec![notice]))?;
            self.prepare_request(attempt)?;
        } else {
            self.give_up(ContextFull {
                attempt,
                cause: FullCause::DoesNotShrink,
                tokens: 0,
                window: 0,
                failure: Some(failure),
                usage: Usage::default(),
                provider: String::new(),
                model: String::new(),
                duration_ms: 0,
            })?;
        }
        self.advance(attempt.run)
    }
}
