//! What a run asks of hooks, and what waits for their answers.

use super::{Apply, Attempt, Call, Envelope, Purpose, Run, RunStatus, Session, StepNo};
use crate::conversation::Op;
use crate::event::{
    AttemptRef, HeldPlan, HooksAnswered, HooksAsked, HooksChanged, HooksDropped, HooksPinned,
};
use crate::failure::Failure;
use crate::hooks::{Gate, MAX_ENDED, Mutation, Outcome, PinnedHook, Point, VerdictKind};
use crate::message::{Message, Usage};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// The hooks of a run. Without any, all of it is as by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHooks {
    /// The hooks that it asks, in the order in which they are asked.
    pub pinned: Vec<PinnedHook>,
    /// Questions about the run, the oldest first. Only the first is asked. Those of attempts are in
    /// [`Attempt::gate`](super::Attempt::gate) and at their calls.
    pub open: Vec<Gate>,
    /// What a person is asked because of hooks.
    pub asks: Option<HookAsk>,
    /// How often a person was asked.
    pub times_asked: u32,
    /// How often hooks were asked about a plan.
    pub plans_asked: u32,
    /// The plan that waits for hooks.
    pub plan: Option<Box<HeldPlan>>,
    /// Hooks require that a person reviews the plan that is proposed next.
    pub reviews_plan: bool,
    /// The attempt that may begin, as hooks say.
    pub step_passed: Option<AttemptRef>,
    /// Attempts that completed.
    pub turns: u32,
    /// How often the run has ended. Another plan opens a run again.
    pub ends: u32,
    /// The session was imported, so the hooks are those of another place.
    pub is_dropped: bool,
}

/// What a person is asked because of hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookAsk {
    /// How does the run continue without hooks that it has to ask?
    Changed {
        /// Names of the hooks that are not there any more.
        missing: Vec<String>,
        /// Names of the hooks that have another digest.
        changed: Vec<String>,
        /// When the person was asked, in milliseconds since 1970.
        since: u64,
    },
    /// May the run or the step begin?
    Approval {
        /// What the hooks were asked about.
        gate: Gate,
        /// The hook that requires the approval.
        hook: String,
        /// Its words.
        reason: String,
        /// When the person was asked, in milliseconds since 1970.
        since: u64,
    },
}

/// A run that has ended, as its hooks are asked about that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedHooks {
    /// Its number.
    pub run: u32,
    /// How often it had ended before.
    pub ends: u32,
    /// The hooks that it asked.
    pub pinned: Vec<PinnedHook>,
    /// The trace that it belongs to.
    pub trace_parent: String,
    /// How it ended.
    pub status: RunStatus,
    /// Why it failed; none otherwise.
    pub failure: Option<Failure>,
    /// What it used up.
    pub usage: Usage,
    /// The context of a turn; empty for a run with a plan.
    pub context: String,
    /// The name of its agent.
    pub agent: String,
    /// Its model; empty for the default.
    pub model: String,
}

impl RunHooks {
    /// Of a run that begins.
    pub(super) fn of(pinned: Vec<PinnedHook>) -> Self {
        Self {
            pinned,
            ..Self::default()
        }
    }

    /// Hooks are asked at the point.
    pub fn listens(&self, point: Point) -> bool {
        self.pinned.iter().any(|hook| hook.listens(point, None))
    }

    /// Hooks are asked at the point about calls of the tool.
    pub fn listens_to(&self, point: Point, tool: &str) -> bool {
        let mut hooks = self.pinned.iter();
        hooks.any(|hook| hook.listens(point, Some(tool)))
    }

    /// No step begins, and the run does not end, before hooks have answered.
    fn is_gated(&self) -> bool {
        !self.open.is_empty() || self.plan.is_some()
    }

    /// The run is to fail: hooks are asked about what has ended, and about nothing that would begin.
    pub(super) fn keep_ends(&mut self) {
        let is_end = |gate: &Gate| {
            matches!(
                gate.point,
                Point::OnError | Point::OnTurnEnd | Point::OnPlanStepComplete
            )
        };
        self.open.retain(is_end);
        self.asks = None;
        self.plan = None;
        self.reviews_plan = false;
        self.step_passed = None;
    }

    /// The run is to fail, and hooks are asked about that.
    pub(super) fn open_error(&mut self, run: u32) {
        if self.listens(Point::OnError) {
            let gate = Gate {
                index: self.ends,
                ..Gate::of_run(Point::OnError, run)
            };
            self.open.push(gate);
        }
    }

    /// The run has ended.
    pub(super) fn end(&mut self) {
        self.keep_ends();
        self.open.clear();
        self.ends += 1;
    }

    /// The plan that answers this request is not needed any more.
    pub(super) fn drop_plan(&mut self, request: Option<u64>) {
        let is_of_it = |plan: &HeldPlan| plan.request == request;
        if self.plan.as_deref().is_some_and(is_of_it) {
            self.plan = None;
            self.open.retain(|gate| gate.point != Point::OnPlanProposed);
        }
    }

    /// What was asked before steps begin is dropped, unless they still may.
    pub(super) fn keep_starts(&mut self, may_start: impl Fn(StepNo) -> bool) {
        let is_kept =
            |gate: &Gate| gate.point != Point::OnStepStart || may_start(gate.attempt.step);
        self.open.retain(is_kept);
        self.asks.take_if(|ask| match ask {
            HookAsk::Approval { gate, .. } => !is_kept(&*gate),
            HookAsk::Changed { .. } => false,
        });
    }
}

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

    /// What hooks say of a compaction counts until the next tool turn, or until a person has decided.
    fn take_answer_to_compaction(&mut self, verdict: VerdictKind, changes: Option<&Mutation>) {
        if !matches!(verdict, VerdictKind::Proceed | VerdictKind::Mutate) {
            // What the model wants needs no person.
            self.wants_compaction = None;
            return;
        }
        self.compaction_asked = Some(self.times_full);
        if let Some(Mutation::Prompt(prompt)) = changes {
            self.summary_prompt = Some(prompt.clone());
        }
    }
}

impl Run {
    /// No step begins, and the run does not end, before hooks have answered.
    pub fn is_gated(&self) -> bool {
        self.hooks.is_gated()
    }

    /// Hooks are asked at a point of a run or a turn. Those are no points of a run that compacts or concludes a
    /// context.
    pub(super) fn opens(&self, point: Point) -> bool {
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
    pub(super) fn note_step_end(&mut self, step: StepNo, attempt: u32) {
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

impl EndedHooks {
    /// The question to its hooks.
    pub fn gate(&self) -> Gate {
        Gate {
            index: self.ends,
            ..Gate::of_run(Point::OnRunEnd, self.run)
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
    pub(super) fn open_run(&mut self) {
        if let Some(run) = self.runs.last_mut()
            && run.opens(Point::OnRunStart)
        {
            let gate = Gate::of_run(Point::OnRunStart, run.number);
            run.hooks.open.push(gate);
        }
    }

    /// An attempt has begun: hooks are asked before it does anything.
    pub(super) fn open_turn(&mut self, attempt: AttemptRef) -> Applied {
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
    pub(super) fn note_turn_end(&mut self, attempt: AttemptRef) -> Applied {
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
    pub(super) fn note_error(&mut self, attempt: AttemptRef) -> Applied {
        let run = self.run_mut(attempt.run)?;
        if run.hooks.listens(Point::OnError) {
            let gate = Gate::of_attempt(Point::OnError, attempt, 0);
            run.hooks.open.push(gate);
        }
        Ok(())
    }

    /// A run has ended, and its hooks are asked about that.
    pub(super) fn note_hooks_of_end(&mut self, number: u32) {
        let run = self.run(number).filter(|run| run.opens(Point::OnRunEnd));
        let Some(run) = run else {
            return;
        };
        let context = run.turn.as_ref().map(|turn| turn.context.clone());
        let ended = EndedHooks {
            run: number,
            ends: run.hooks.ends.saturating_sub(1),
            pinned: run.hooks.pinned.clone(),
            trace_parent: run.trace_parent.clone(),
            status: run.status,
            failure: run.end.failure.clone(),
            usage: run.spent.usage,
            context: context.unwrap_or_default(),
            agent: self.agent_name(number).to_owned(),
            model: run.model.clone(),
        };
        self.ended_hooks.push_back(ended);
        if self.ended_hooks.len() > MAX_ENDED {
            self.ended_hooks.pop_front();
        }
    }

    /// Takes an answer for which an attempt waits.
    fn take_answer_to_attempt(&mut self, gate: Gate, outcome: &Outcome) -> Applied {
        let running = self.attempt_mut(gate.attempt)?;
        running.gate = None;
        running.retry = None;
        running.held_usage = None;
        match (gate.point, &outcome.mutation) {
            (Point::PreRequest, changes) => {
                running.requests_passed = gate.turn + 1;
                // The executor does not ask its model.
                running.rewrites += u32::from(outcome.verdict == VerdictKind::Skip);
                let ops = changes.as_ref().and_then(Mutation::ops);
                running.say(ops.unwrap_or_default().iter().cloned(), false);
                Ok(())
            }
            (Point::PostRequest, Some(Mutation::Text(text))) => {
                running.rewrites += 1;
                self.replace_reply(gate.attempt, text)
            }
            (Point::OnCompaction, changes) => {
                running.take_answer_to_compaction(outcome.verdict, changes.as_ref());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The last reply says this instead.
    fn replace_reply(&mut self, attempt: AttemptRef, text: &str) -> Applied {
        let conversation = self.conversation_mut(attempt)?;
        let missing = || IllegalTransition::missing(format_args!("reply of {attempt:?}"));
        let last = conversation.behind.last().ok_or_else(missing)?;
        let (number, message) = (last.number, Message::clone(&last.message));
        conversation.apply(Op::Update {
            number,
            message: message.saying(text),
        })
    }

    /// Takes an answer for which a run waits.
    fn take_answer_to_run(&mut self, gate: Gate, outcome: &Outcome, at: u64) -> Applied {
        let number = gate.attempt.run;
        let run = self.run_mut(number)?;
        let hooks = &mut run.hooks;
        hooks.open.retain(|open| *open != gate);
        let asks = outcome.verdict == VerdictKind::RequireApproval;
        match gate.point {
            Point::OnPlanProposed => {
                hooks.plan = None;
                hooks.reviews_plan = asks;
                return Ok(());
            }
            // A person can deny the rest.
            Point::OnStepStart if asks || outcome.verdict == VerdictKind::Proceed => {
                hooks.step_passed = Some(gate.attempt);
            }
            _ => {}
        }
        if !asks || run.ending.is_some() {
            return Ok(());
        }
        let ask = HookAsk::Approval {
            gate,
            hook: outcome.hook.clone(),
            reason: outcome.text.clone(),
            since: at,
        };
        self.hold_for_person(number, ask)
    }

    /// A run waits for a person. What its models were asked for is lost.
    fn hold_for_person(&mut self, number: u32, ask: HookAsk) -> Applied {
        let hooks = &mut self.run_mut(number)?.hooks;
        if hooks.asks.is_some() {
            let what = format_args!("hooks of run {number}");
            return Err(IllegalTransition::not_allowed(
                what,
                "a person is asked",
                "asked",
            ));
        }
        hooks.asks = Some(ask);
        hooks.times_asked += 1;
        self.drop_summaries(number)
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

impl Apply for HooksAnswered {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let gate = self.gate;
        if !session.is_open(gate) {
            return Err(refused(gate, "not open", "answered"));
        }
        if !self.outcomes.iter().all(|it| it.fits(gate.point)) {
            return Err(refused(gate, "open", "answered otherwise"));
        }
        if gate.point == Point::PreToolCall {
            return session.take_answers_to_calls(gate, &self.outcomes);
        }
        let [outcome] = &self.outcomes[..] else {
            return Err(refused(gate, "one answer", self.outcomes.len()));
        };
        match gate.point {
            Point::OnRunEnd => {
                session.ended_hooks.retain(|ended| ended.gate() != gate);
                Ok(())
            }
            Point::PostToolCall => session.take_answer_to_result(gate, outcome),
            point if point.holds_attempt() => session.take_answer_to_attempt(gate, outcome),
            _ => session.take_answer_to_run(gate, outcome, envelope.at),
        }
    }
}

impl Apply for HooksChanged {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let ask = HookAsk::Changed {
            missing: self.missing.clone(),
            changed: self.changed.clone(),
            since: envelope.at,
        };
        session.hold_for_person(self.run, ask)
    }
}

/// What executors do for hooks follows from the hooks of the run, so they begin anew.
impl Apply for HooksPinned {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let hooks = &mut session.run_mut(self.run)?.hooks;
        hooks.pinned.clone_from(&self.hooks);
        hooks.is_dropped = false;
        for attempt in session.running_of(self.run) {
            session.attempt_mut(attempt)?.rewrites += 1;
        }
        Ok(())
    }
}

/// Questions stay open: the hooks of this place answer them.
impl Apply for HooksDropped {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.ended_hooks.clear();
        let active = session.runs.last_mut();
        if let Some(run) = active.filter(|run| !run.status.is_terminal()) {
            let hooks = &mut run.hooks;
            hooks.pinned.clear();
            hooks.is_dropped = true;
            let is_of_place = |ask: &mut HookAsk| matches!(ask, HookAsk::Changed { .. });
            hooks.asks.take_if(is_of_place);
        }
        Ok(())
    }
}

fn refused(gate: Gate, from: impl std::fmt::Debug, to: impl std::fmt::Debug) -> IllegalTransition {
    IllegalTransition::not_allowed(format_args!("{gate:?}"), from, to)
}
