//! What follows from the answers of hooks, and what hooks are asked that no other event announces.
//!
//! A gate is open in the state, and what comes next looks for it and returns. So an answer closes the gate, and then
//! does again what returned before.

use super::plans::Consent;
use super::{Decision, Rejection, Reply, Retry};
use crate::agent::AgentDefinition;
use crate::conversation::Op;
use crate::event::{
    AttemptRef, HeldPlan, HooksAnswered, HooksAsked, HooksChanged, HooksPinned, ResultHandle,
    RunEnding, StepSkipped,
};
use crate::failure::Failure;
use crate::hooks::{
    Gate, MAX_CHANGES, MAX_HOOKS, Mutation, Outcome, PinnedHook, Point, VerdictKind, fit,
};
use crate::message::{FinishReason, Usage};
use crate::refusal::Refusal;
use crate::session::{Attempt, Call, Run};
use crate::transitions::{Applied, IllegalTransition};
use std::collections::BTreeMap;

/// The provider of a reply that a hook gave in place of a model.
const PROVIDER: &str = "hook";

impl Decision<'_> {
    /// The hooks that a run of this agent asks.
    pub(crate) fn pins(
        &self,
        agent: Option<&AgentDefinition>,
    ) -> Result<Vec<PinnedHook>, Rejection> {
        let present = self.facts.hooks;
        let is_there = |name: &&String| present.0.iter().any(|hook| hook.pin.name == **name);
        let mut named = agent.into_iter().flat_map(|agent| &agent.hooks);
        if let (Some(agent), Some(name)) = (agent, named.find(|name| !is_there(name))) {
            let known: Vec<_> = present.0.iter().map(|hook| &*hook.pin.name).collect();
            let known = match known[..] {
                [] => "there is none".to_owned(),
                _ => format!("there are: {}", known.join(", ")),
            };
            let agent = &agent.name;
            let message = format!(
                "agent '{agent}' names the hook '{name}', which is not configured; {known}"
            );
            return Err(Rejection::refused(Refusal::HookNotFound, message));
        }
        let pins = present.of_agent(agent);
        if pins.len() > MAX_HOOKS {
            let message = format!(
                "the run would ask {} hooks; at most {MAX_HOOKS} are allowed: remove some, or limit them to agents",
                pins.len()
            );
            return Err(Rejection::refused(Refusal::Limit, message));
        }
        Ok(pins)
    }

    /// A run that was imported asks the hooks of this place from now on.
    pub(super) fn pin_hooks_anew(&mut self) -> Applied {
        let active = self.session.active_run();
        let Some(run) = active
            .filter(|run| run.hooks.is_dropped)
            .map(|run| run.number)
        else {
            return Ok(());
        };
        let agent = self.session.agent_of_run(run);
        let agent = agent.map(|agent| &*agent.definition);
        let mut hooks = self.facts.hooks.of_agent(agent);
        hooks.truncate(MAX_HOOKS);
        self.emit(HooksPinned { run, hooks })
    }

    /// Hooks of a run are asked at the point.
    pub(super) fn listens(&self, run: u32, point: Point) -> bool {
        let run = self.session.run(run);
        run.is_some_and(|run| run.hooks.listens(point))
    }

    /// An attempt continues when hooks have answered.
    pub(super) fn is_gated(&self, attempt: AttemptRef) -> bool {
        let attempt = self.session.attempt(attempt);
        attempt.is_some_and(Attempt::is_gated)
    }

    /// Hooks of a run are missing, or others by now. The run waits for a person.
    pub(super) fn hooks_missing(
        &mut self,
        run: u32,
        missing: Vec<String>,
        changed: Vec<String>,
    ) -> Applied {
        let active = self.session.active_run().filter(|it| it.number == run);
        let waits = active.is_none_or(|run| run.hooks.asks.is_some() || run.ending.is_some());
        if waits || (missing.is_empty() && changed.is_empty()) {
            return Ok(());
        }
        self.emit(HooksChanged {
            run,
            missing,
            changed,
        })?;
        self.advance(run)
    }

    /// Hooks are asked before a step begins, unless they have let it begin. Returns whether they are.
    pub(super) fn ask_before_step(
        &mut self,
        attempt: AttemptRef,
    ) -> Result<bool, IllegalTransition> {
        let run = self.session.run(attempt.run);
        let run = run.filter(|run| run.turn.is_none() && run.hooks.listens(Point::OnStepStart));
        let asks = run.is_some_and(|run| run.hooks.step_passed != Some(attempt));
        if asks {
            self.ask_hooks(Gate::of_attempt(Point::OnStepStart, attempt, 0))?;
        }
        Ok(asks)
    }

    /// Hooks are asked before the models of a run are, once for each request.
    pub(super) fn ask_before_requests(&mut self, run: u32) -> Applied {
        // An owner that is about to let go asks, too: otherwise its executors could go on before the next owner does.
        let is_held = self.session.run(run).is_none_or(Run::is_held);
        if is_held || !self.listens(run, Point::PreRequest) {
            return Ok(());
        }
        for attempt in self.running(run) {
            if let Some(tool_turn) = self.request_to_ask(attempt) {
                self.ask_hooks(Gate::of_attempt(Point::PreRequest, attempt, tool_turn))?;
            }
        }
        Ok(())
    }

    /// The tool turn of the next request of an attempt, if nothing else comes before it and no hook was asked about it.
    fn request_to_ask(&self, attempt: AttemptRef) -> Option<u32> {
        let running = self.session.attempt(attempt)?;
        let is_next = running.calls.iter().all(Call::is_finished)
            && running.summary.is_none()
            && running.full.is_none()
            && !running.is_gated();
        let has_model = !self.is_tool_step(attempt) && self.compacts(attempt).is_none();
        let is_new = running.requests_passed <= running.tool_turns;
        (is_next && has_model && is_new).then_some(running.tool_turns)
    }

    /// The model of an attempt is to be asked again after an error.
    pub(super) fn ask_before_retry(&mut self, attempt: AttemptRef, retry: Retry) -> Applied {
        let running = self.session.attempt(attempt);
        let of_request = running
            .filter(|running| running.tool_turns == retry.tool_turn && running.summary.is_none());
        let last = of_request.map(|running| running.last_retry);
        let Some(last) = last.filter(|_| self.listens(attempt.run, Point::OnRetry)) else {
            return Ok(());
        };
        let gate = Gate {
            // Another executor may have asked the model before, and a key names one question.
            index: retry.attempt.max(last.saturating_add(1)),
            ..Gate::of_attempt(Point::OnRetry, attempt, retry.tool_turn)
        };
        self.emit(HooksAsked {
            gate,
            failure: Some(retry.failure),
            plan: None,
        })
    }

    pub(super) fn ask_hooks(&mut self, gate: Gate) -> Applied {
        self.emit(HooksAsked {
            gate,
            failure: None,
            plan: None,
        })
    }

    /// Hooks answered. What was waiting for them continues.
    pub(super) fn hooked(
        &mut self,
        gate: Gate,
        mut outcomes: Vec<Outcome>,
        wholes: BTreeMap<u32, Box<ResultHandle>>,
    ) -> Applied {
        if gate.point == Point::PostRequest && self.session.is_open(gate) {
            self.hear(gate.attempt)?;
        }
        if !self.session.is_open(gate) {
            return Ok(());
        }
        self.refuse_unfit(gate, &mut outcomes);
        self.withhold_rest(gate, &mut outcomes);
        let run = self.session.run(gate.attempt.run);
        // A person is asked one thing of a run at a time. Hooks are asked again when that is decided.
        let is_asked = run.is_some_and(|run| run.hooks.asks.is_some());
        if is_asked && outcomes.iter().any(|it| it.asks_about(gate.point)) {
            return Ok(());
        }
        let plan = run.and_then(|run| run.hooks.plan.clone());
        let wants_compaction = self
            .session
            .attempt(gate.attempt)
            .is_some_and(|it| it.wants_compaction.is_some());
        self.emit(HooksAnswered {
            gate,
            outcomes: outcomes.clone(),
        })?;
        if gate.point == Point::PreToolCall {
            return self.calls_hooked(gate, &outcomes, wholes);
        }
        let Some(outcome) = outcomes.into_iter().next() else {
            return Ok(());
        };
        match gate.point {
            Point::OnRunEnd | Point::PreToolCall => Ok(()),
            Point::OnRunStart | Point::OnError | Point::OnTurnEnd | Point::OnPlanStepComplete => {
                self.run_hooked(gate, &outcome)
            }
            Point::OnPlanProposed => match plan {
                Some(plan) => self.plan_hooked(gate, *plan, &outcome),
                None => Ok(()),
            },
            Point::OnStepStart => self.step_hooked(gate, outcome),
            Point::OnTurnStart | Point::PreRequest | Point::OnRetry | Point::PostRequest => {
                self.attempt_hooked(gate, &outcome)
            }
            Point::PostToolCall => self.result_hooked(gate),
            Point::OnCompaction => self.compaction_hooked(gate, &outcome, wants_compaction),
        }
    }

    /// Changes that do not fit what they change any more, or that are too large together with the results of skipped
    /// calls, block it instead: the journal has to hold them all.
    fn refuse_unfit(&self, gate: Gate, outcomes: &mut [Outcome]) {
        let mut bytes = 0_usize;
        for outcome in outcomes {
            let changed = outcome.mutation.as_ref().map_or(0, Mutation::bytes);
            let given = match outcome.verdict {
                VerdictKind::Skip => outcome.text.len(),
                _ => 0,
            };
            bytes = bytes.saturating_add(changed).saturating_add(given);
            let fits = |ops: &[Op]| {
                let next = self.session.next_conversation(gate.attempt);
                next.is_some_and(|next| fit(&next, ops).is_ok())
            };
            let ops = outcome.mutation.as_ref().and_then(Mutation::ops);
            if ops.is_some_and(|ops| !fits(ops)) {
                outcome.refuse("its changes do not fit the conversation any more");
            } else if changed + given > 0 && bytes > MAX_CHANGES {
                outcome.refuse("the changes and results of all hooks together are too large");
            }
        }
    }

    fn run_hooked(&mut self, gate: Gate, outcome: &Outcome) -> Applied {
        let run = gate.attempt.run;
        match outcome.verdict {
            VerdictKind::Block => self.begin_ending(run, Failure::blocked(gate.point, outcome)),
            _ => self.advance(run),
        }
    }

    /// Ends a run because of hooks, once nothing of it is under way. A run that ends already ends as before.
    pub(crate) fn begin_ending(&mut self, run: u32, failure: Failure) -> Applied {
        let active = self.session.active_run().filter(|it| it.number == run);
        if active.is_some_and(|run| run.ending.is_none()) {
            let because = failure.message.clone();
            self.emit(RunEnding {
                run,
                failure,
                usage: None,
            })?;
            // An older request would give it another plan, and let it live.
            self.drop_requests(run, &because)?;
        }
        self.advance(run)
    }

    /// A plan comes into force, or a person reviews it, as if the planner had just answered.
    fn plan_hooked(&mut self, gate: Gate, held: HeldPlan, outcome: &Outcome) -> Applied {
        let run = gate.attempt.run;
        if outcome.verdict == VerdictKind::Block {
            let failure = Failure::blocked(gate.point, outcome);
            return match held.request {
                Some(request @ 1..) => {
                    self.fail_request(run, request, failure, Usage::default(), 0)?;
                    self.advance(run)
                }
                _ => self.begin_ending(run, failure),
            };
        }
        let plan = match &outcome.mutation {
            Some(Mutation::Plan(plan)) => plan.clone(),
            _ => held.plan,
        };
        let consent = match outcome.verdict {
            VerdictKind::RequireApproval => Consent::OfPerson,
            _ => Consent::Given,
        };
        // What the planner used up was counted when hooks were asked.
        let usage = Usage::default();
        match held.request {
            None => self.planned(run, Ok(plan), usage, held.duration_ms, consent)?,
            Some(request) => {
                self.revised(run, request, Ok(plan), usage, held.duration_ms, consent)?;
            }
        }
        self.advance(run)
    }

    fn step_hooked(&mut self, gate: Gate, outcome: Outcome) -> Applied {
        let AttemptRef { run, step, .. } = gate.attempt;
        match outcome.verdict {
            VerdictKind::Skip => self.emit(StepSkipped {
                run,
                step,
                reason: outcome.text,
                by_person: true,
                hook: outcome.hook,
            })?,
            VerdictKind::Block => {
                self.begin_step(gate.attempt)?;
                let failure = Failure::blocked(gate.point, &outcome);
                self.fail_step(gate.attempt, failure)?;
            }
            _ => {}
        }
        self.advance(run)
    }

    fn attempt_hooked(&mut self, gate: Gate, outcome: &Outcome) -> Applied {
        let attempt = gate.attempt;
        match (outcome.verdict, gate.point) {
            (VerdictKind::Block, point) => {
                self.fail_step(attempt, Failure::blocked(point, outcome))?;
            }
            (_, Point::OnTurnStart) => self.begin_attempt(attempt)?,
            (_, Point::PostRequest) => self.after_post_request(attempt)?,
            (VerdictKind::Skip, Point::PreRequest) => self.take_reply_of_hook(gate, outcome)?,
            (_, Point::PreRequest) => self.prepare_request(attempt)?,
            // The executor asks again with the acknowledgement of its report.
            _ => {}
        }
        self.advance(attempt.run)
    }

    /// What a hook says counts as the reply. Nothing was asked of a model.
    fn take_reply_of_hook(&mut self, gate: Gate, outcome: &Outcome) -> Applied {
        self.hear(gate.attempt)?;
        let Some(running) = self.session.attempt(gate.attempt) else {
            return Ok(());
        };
        let reply = Reply {
            tool_turn: gate.turn,
            text: outcome.text.clone(),
            calls: Vec::new(),
            opaque: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage::default(),
            provider: PROVIDER.to_owned(),
            model: outcome.hook.clone(),
            duration_ms: 0,
            ops_through: running.newest_op(),
            estimated_tokens: 0,
            window_tokens: 0,
        };
        self.take_unasked_reply(gate.attempt, reply, Some(&outcome.hook))
    }
}
