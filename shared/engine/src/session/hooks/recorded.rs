//! The hooks that a run records, and what a person is asked because of them.

use crate::event::{AttemptRef, HeldPlan, HooksDropped, HooksPinned};
use crate::hooks::{Gate, PinnedHook, Point};
use crate::session::{Apply, Envelope, Session, StepNo};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// The hooks of a run. Without any, all of it is as by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHooks {
    /// The hooks that it asks, in the order in which they are asked.
    pub pinned: Vec<PinnedHook>,
    /// Questions about the run, the oldest first. Only the first is asked. Those of attempts are in
    /// [`Attempt::gate`](crate::session::Attempt::gate) and at their calls.
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

impl RunHooks {
    /// Of a run that begins.
    pub(in crate::session) fn of(pinned: Vec<PinnedHook>) -> Self {
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
    pub(super) fn is_gated(&self) -> bool {
        !self.open.is_empty() || self.plan.is_some()
    }

    /// The run is to fail: hooks are asked about what has ended, and about nothing that would begin.
    pub(in crate::session) fn keep_ends(&mut self) {
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
    pub(in crate::session) fn open_error(&mut self, run: u32) {
        if self.listens(Point::OnError) {
            let gate = Gate {
                index: self.ends,
                ..Gate::of_run(Point::OnError, run)
            };
            self.open.push(gate);
        }
    }

    /// The run is not to fail any more. What it fails for later is another question.
    pub(in crate::session) fn drop_error(&mut self) {
        let before = self.open.len();
        let is_of_run = |gate: &Gate| gate.point == Point::OnError && gate.attempt.attempt == 0;
        self.open.retain(|gate| !is_of_run(gate));
        if self.open.len() < before {
            self.ends += 1;
        }
    }

    /// The run has ended.
    pub(in crate::session) fn end(&mut self) {
        self.keep_ends();
        self.open.clear();
        self.ends += 1;
    }

    /// The plan that answers this request is not needed any more.
    pub(in crate::session) fn drop_plan(&mut self, request: Option<u64>) {
        let is_of_it = |plan: &HeldPlan| plan.request == request;
        if self.plan.as_deref().is_some_and(is_of_it) {
            self.plan = None;
            self.open.retain(|gate| gate.point != Point::OnPlanProposed);
        }
    }

    /// What was asked before steps begin is dropped, unless they still may.
    pub(in crate::session) fn keep_starts(&mut self, may_start: impl Fn(StepNo) -> bool) {
        let is_kept =
            |gate: &Gate| gate.point != Point::OnStepStart || may_start(gate.attempt.step);
        self.open.retain(is_kept);
        self.asks.take_if(|ask| match ask {
            HookAsk::Approval { gate, .. } => !is_kept(&*gate),
            HookAsk::Changed { .. } => false,
        });
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
