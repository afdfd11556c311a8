//! The open questions, and what waits for their answers.

use super::refused;
use crate::event::{AttemptRef, HooksAsked};
use crate::hooks::{Gate, Point};
use crate::message::Usage;
use crate::session::{
    Apply, Attempt, Call, EndedHooks, Envelope, Purpose, Run, RunStatus, Session, StepNo,
};
use crate::transitions::Applied;

impl Attempt {
    /// Hooks are asked, and the attempt continues when they have answered.
    pub fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// What hooks are asked. About calls they are asked only if `asks_calls`.
    fn open_gates(&self, name: AttemptRef, asks_calls: bool) -> Vec<Gate> {
        let mut gates: Vec<_> = self.gate.into_iter().collect();
        if asks_calls && !self.is_gated() && !self.waits_for_person() {
            gates.extend(self.gate_of_calls(name));
        }
        let held = self
            .last_calls(name)
            .filter(|(_, call)| call.holds_result());
        gates.extend(held.map(|(call, _)| Gate::of_result(call)));
        gates
    }

    fn gate_of_calls(&self, name: AttemptRef) -> Option<Gate> {
        let waits = self.calls.iter().any(Call::waits_for_hooks);
        let tool_turn = self.tool_turns.saturating_sub(1);
        waits.then(|| Gate::of_attempt(Point::PreToolCall, name, tool_turn))
    }
}

impl Run {
    /// No step begins, and the run does not end, before hooks have answered.
    pub fn is_gated(&self) -> bool {
        self.hooks.is_gated()
    }

    /// Hooks are asked at a point of a run or a turn. Those are no points of a run that compacts or concludes a
    /// context.
    pub(in crate::session) fn opens(&self, point: Point) -> bool {
        let turn = self.turn.as_ref();
        self.hooks.listens(point) && turn.is_none_or(|turn| turn.purpose == Purpose::Reply)
    }

    fn open_gates(&self) -> Vec<Gate> {
        let hooks = &self.hooks;
        let waits = self.status == RunStatus::Paused || hooks.asks.is_some() || hooks.is_dropped;
        if waits {
            return Vec::new();
        }
        let asks_calls = !self.is_held();
        let attempts = self.running_attempts();
        let attempts = attempts.flat_map(|(name, _, it)| it.open_gates(name, asks_calls));
        hooks
            .open
            .first()
            .copied()
            .into_iter()
            .chain(attempts)
            .collect()
    }

    /// A step has ended, of which no hook was asked yet.
    pub(in crate::session) fn note_step_end(&mut self, step: StepNo, attempt: u32) {
        self.hooks.keep_starts(|other| other != step);
        let is_asked = self.turn.is_none() && self.hooks.listens(Point::OnPlanStepComplete);
        if is_asked && !self.status.is_terminal() {
            let name = AttemptRef {
                run: self.number,
                step,
                attempt,
            };
            let gate = Gate::of_attempt(Point::OnPlanStepComplete, name, 0);
            self.hooks.open.push(gate);
        }
    }
}

impl Session {
    /// The questions that hooks are asked now.
    pub fn open_gates(&self) -> Vec<Gate> {
        let ended = self.ended_hooks.iter().map(EndedHooks::gate);
        let newest = self.runs.last().map(Run::open_gates).unwrap_or_default();
        ended.chain(newest).collect()
    }

    /// Something waits for the answer to this question, also if hooks are not asked now.
    pub fn is_open(&self, gate: Gate) -> bool {
        match gate.point {
            Point::OnRunEnd => self.ended_hooks.iter().any(|it| it.gate() == gate),
            Point::PreToolCall => {
                let attempt = self.attempt(gate.attempt);
                attempt.and_then(|it| it.gate_of_calls(gate.attempt)) == Some(gate)
            }
            Point::PostToolCall => {
                let call = self.call(gate.call_at(gate.index));
                call.is_some_and(Call::holds_result)
            }
            point if point.holds_attempt() => {
                let attempt = self.attempt(gate.attempt);
                attempt.is_some_and(|it| it.gate == Some(gate))
            }
            _ => {
                let run = self
                    .runs
                    .last()
                    .filter(|run| run.number == gate.attempt.run);
                run.is_some_and(|run| run.hooks.open.first() == Some(&gate))
            }
        }
    }

    /// Turns and attempts that have completed: of the context for a turn of a conversation, else of the run.
    pub fn turn_index(&self, run: u32) -> u32 {
        let run = self.run(run);
        match run.and_then(|run| run.turn.as_ref()) {
            Some(turn) => {
                let context = self.contexts.get(&turn.context);
                context.map_or(0, |context| context.turns)
            }
            None => run.map_or(0, |run| run.hooks.turns),
        }
    }

    /// A run has begun: hooks are asked before it does anything.
    pub(in crate::session) fn open_run(&mut self) {
        if let Some(run) = self.runs.last_mut()
            && run.opens(Point::OnRunStart)
        {
            let gate = Gate::of_run(Point::OnRunStart, run.number);
            run.hooks.open.push(gate);
        }
    }

    /// An attempt has begun: hooks are asked before it does anything.
    pub(in crate::session) fn open_turn(&mut self, attempt: AttemptRef) -> Applied {
        let index = self.turn_index(attempt.run);
        let run = self.run_mut(attempt.run)?;
        run.hooks.step_passed = None;
        if run.opens(Point::OnTurnStart) {
            let gate = Gate::of_attempt(Point::OnTurnStart, attempt, index);
            self.attempt_mut(attempt)?.gate = Some(gate);
        }
        Ok(())
    }

    /// An attempt has completed.
    pub(in crate::session) fn note_turn_end(&mut self, attempt: AttemptRef) -> Applied {
        let index = self.turn_index(attempt.run);
        let run = self.run_mut(attempt.run)?;
        if run.opens(Point::OnTurnEnd) {
            let gate = Gate::of_attempt(Point::OnTurnEnd, attempt, index);
            run.hooks.open.push(gate);
        }
        run.hooks.turns += 1;
        Ok(())
    }

    /// An attempt has failed.
    pub(in crate::session) fn note_error(&mut self, attempt: AttemptRef) -> Applied {
        let run = self.run_mut(attempt.run)?;
        if run.hooks.listens(Point::OnError) {
            let gate = Gate::of_attempt(Point::OnError, attempt, 0);
            run.hooks.open.push(gate);
        }
        Ok(())
    }
}

impl Apply for HooksAsked {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let gate = self.gate;
        if matches!(
            gate.point,
            Point::PreRequest | Point::OnRetry | Point::OnCompaction
        ) {
            let running = session.attempt_mut(gate.attempt)?;
            if running.is_gated() {
                return Err(refused(gate, "another question is open", "asked"));
            }
            running.gate = Some(gate);
            running.retry.clone_from(&self.failure);
            if gate.point == Point::OnRetry {
                running.last_retry = running.last_retry.max(gate.index);
            }
            // The executor continues with what is left.
            running.rewrites += u32::from(gate.point == Point::OnCompaction);
            return Ok(());
        }
        let hooks = &mut session.run_mut(gate.attempt.run)?.hooks;
        let usage = match (gate.point, &self.plan) {
            (Point::OnStepStart, None) => Usage::default(),
            (Point::OnPlanProposed, Some(plan)) if hooks.plan.is_none() => {
                hooks.plans_asked += 1;
                hooks.plan = Some(plan.clone());
                plan.usage
            }
            _ => return Err(refused(gate, "not such a question", "asked")),
        };
        hooks.open.push(gate);
        session.spend(gate.attempt.run, &usage)
    }
}
