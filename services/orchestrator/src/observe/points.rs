//! The hook points of a run, as events of its span. They are there whether hooks are asked or not.

use cairn_engine::event::{AttemptRef, Event, EventKind, HooksAnswered};
use cairn_engine::hooks::{Gate, Outcome, Point, VerdictKind};
use cairn_engine::session::{Moment as TimeOfStep, Run, Session, Step, StepStatus};
use cairn_rpc::trace::{PastEvent, Value};
use std::collections::BTreeSet;

/// Most hook points of a span before its end, which is to be among the events that an exporter takes. A plan of 1,000
/// steps has four for each.
const MOST: usize = 4000;

/// The hook points of a run so far, in the order of time.
#[derive(Debug, Default)]
pub(super) struct RunPoints {
    events: Vec<PastEvent>,
    /// It is a turn of a conversation, whose step is none of a plan.
    is_turn: bool,
    /// Turns and attempts that completed: of the context for a turn, else of the run.
    turns: u32,
    /// Plans so far.
    plans: u32,
    /// Requests for plans of which a person was shown one.
    reviewed: BTreeSet<u64>,
}

/// A moment of a run at which hooks may be asked.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) run: u32,
    at_ms: u64,
    reached: Reached,
}

#[derive(Debug)]
enum Reached {
    /// A plan is shown to a person.
    Reviewed { request: u64 },
    /// A plan came into force.
    Applied { request: u64 },
    /// An attempt at a step began.
    Started(Place),
    /// An attempt completed, and its step with it.
    Completed(Place),
    /// An attempt failed for this reason, and its step with it.
    Failed(Place, String),
    /// A step will not be done.
    Skipped(Place),
    /// Older messages of an attempt gave way.
    Compacted(Place),
    /// The run is to fail for this reason.
    Ending(String),
    /// Hooks skipped or blocked what they were asked about. Of PreToolCall: the calls at these positions.
    Stopped {
        gate: Gate,
        place: Place,
        calls: Vec<u32>,
    },
}

/// A step, and an attempt at it; 0 for none.
#[derive(Debug, Clone, Copy)]
struct Place {
    step: u32,
    attempt: u32,
}

impl Place {
    /// Of an attempt, in the plan in force. A step that is in no plan any more has its number.
    fn of(session: &Session, name: AttemptRef) -> Self {
        let place = session.step(name).and_then(|step| step.place);
        let place = place.map(|place| place.index());
        let number = || name.step.slot().map(|slot| slot.index());
        let index = place.or_else(number).unwrap_or_default();
        Self {
            step: u32::try_from(index).unwrap_or(u32::MAX),
            attempt: name.attempt,
        }
    }
}

impl Moment {
    /// None for an event that is no such moment. The state has the event already.
    pub(super) fn of(session: &Session, event: &Event) -> Option<Self> {
        let place = |name| Place::of(session, name);
        let (run, reached) = match &event.kind {
            EventKind::PlanProposed(proposed) => {
                let request = proposed.request;
                (proposed.run, Reached::Reviewed { request })
            }
            EventKind::PlanApplied(applied) => {
                let request = applied.request;
                (applied.run, Reached::Applied { request })
            }
            EventKind::StepStarted(it) => (it.attempt.run, Reached::Started(place(it.attempt))),
            EventKind::StepCompleted(it) => (it.attempt.run, Reached::Completed(place(it.attempt))),
            EventKind::StepFailed(it) => {
                let reason = it.failure.reason.clone();
                (it.attempt.run, Reached::Failed(place(it.attempt), reason))
            }
            EventKind::StepSkipped(skipped) => {
                let name = AttemptRef {
                    run: skipped.run,
                    step: skipped.step,
                    ..AttemptRef::default()
                };
                (skipped.run, Reached::Skipped(place(name)))
            }
            EventKind::ContextCompacted(it) => {
                (it.attempt.run, Reached::Compacted(place(it.attempt)))
            }
            EventKind::RunEnding(it) => (it.run, Reached::Ending(it.failure.reason.clone())),
            EventKind::HooksAnswered(it) => (it.gate.attempt.run, stopped(session, it)?),
            _ => return None,
        };
        Some(Self {
            run,
            at_ms: event.at,
            reached,
        })
    }
}

/// What hooks skipped or blocked, if nothing else tells that the run got to the point.
fn stopped(session: &Session, answered: &HooksAnswered) -> Option<Reached> {
    let gate = answered.gate;
    let is_stopped = |outcome: &&Outcome| match (gate.point, outcome.verdict) {
        (
            Point::PreRequest | Point::PreToolCall | Point::OnCompaction,
            VerdictKind::Skip | VerdictKind::Block,
        ) => true,
        (Point::OnPlanProposed, verdict) => verdict == VerdictKind::Block,
        // One that is blocked begins, and fails.
        (Point::OnStepStart, verdict) => verdict == VerdictKind::Skip,
        _ => false,
    };
    let stopped = answered.outcomes.iter().filter(is_stopped);
    let calls: Vec<_> = stopped.map(|outcome| outcome.index).collect();
    (!calls.is_empty()).then(|| Reached::Stopped {
        gate,
        place: Place::of(session, gate.attempt),
        calls,
    })
}

/// What the state has of a step.
fn reached(step: &Step, slot: u32) -> impl Iterator<Item = (TimeOfStep, Reached)> {
    let index = step.place.map(|place| place.index());
    let index = index.map(|index| u32::try_from(index).unwrap_or(u32::MAX));
    let place = Place {
        step: index.unwrap_or(slot),
        attempt: step.attempts,
    };
    let end = match &step.status {
        StepStatus::Completed { .. } => Some(Reached::Completed(place)),
        StepStatus::Failed { failure } => Some(Reached::Failed(place, failure.reason.clone())),
        StepStatus::Skipped { .. } => Some(Reached::Skipped(place)),
        StepStatus::Pending | StepStatus::Running(_) => None,
    };
    let started = step.started.map(|moment| (moment, Reached::Started(place)));
    started.into_iter().chain(step.ended.zip(end))
}

impl RunPoints {
    /// Of a run that begins now. `turn_index` is that of a turn; none for a run with a plan.
    pub(super) fn begun(at_ms: u64, turn_index: Option<u32>) -> Self {
        let mut points = Self {
            is_turn: turn_index.is_some(),
            turns: turn_index.unwrap_or_default(),
            ..Self::default()
        };
        points.push(Point::OnRunStart, at_ms, Vec::new());
        points
    }

    /// As far as the state of a run has them: the last attempt at each step.
    pub(super) fn of_state(session: &Session, run: &Run) -> Self {
        let turn_index = run.turn.as_ref().map(|_| session.turn_index(run.number));
        let steps = run.plan.iter().flat_map(|plan| &plan.steps);
        let reached = steps.zip(0..).flat_map(|(step, slot)| reached(step, slot));
        let mut points = Self::begun(run.started_at, turn_index);
        points.take_all(run.number, reached.collect());
        // There may have been other attempts.
        points.turns = session.turn_index(run.number);
        points.plans = run.revision();
        points
    }

    /// Takes what was reached in the order of the run's ticks.
    fn take_all(&mut self, run: u32, mut reached: Vec<(TimeOfStep, Reached)>) {
        reached.sort_by_key(|(moment, _)| moment.tick);
        for (moment, reached) in reached {
            self.take(&Moment {
                run,
                at_ms: moment.at,
                reached,
            });
        }
    }

    pub(super) fn take(&mut self, moment: &Moment) {
        let at_ms = moment.at_ms;
        match &moment.reached {
            Reached::Reviewed { request } => {
                self.reviewed.insert(*request);
                self.plan(at_ms);
            }
            // It was there when a person was shown it.
            Reached::Applied { request } if self.reviewed.remove(request) => {}
            Reached::Applied { .. } => self.plan(at_ms),
            Reached::Started(place) => self.start(*place, at_ms),
            Reached::Completed(place) => {
                let turn = ("cairn.turn.index", number(self.turns));
                self.push(Point::OnTurnEnd, at_ms, self.with_step(*place, vec![turn]));
                self.turns += 1;
                self.end_step(*place, "completed", at_ms);
            }
            Reached::Failed(place, reason) => self.fail(*place, reason, at_ms),
            Reached::Skipped(place) => self.end_step(*place, "skipped", at_ms),
            Reached::Compacted(place) => {
                let attributes = self.with_step(*place, Vec::new());
                self.push(Point::OnCompaction, at_ms, attributes);
            }
            Reached::Ending(reason) => self.push(Point::OnError, at_ms, vec![reason_of(reason)]),
            Reached::Stopped { gate, place, calls } => self.stop(*gate, *place, calls, at_ms),
        }
    }

    /// All of them, for a run that ended then.
    pub(super) fn ended(mut self, at_ms: u64) -> Vec<PastEvent> {
        self.events.truncate(MOST);
        let end = event(Point::OnRunEnd, at_ms, Vec::new());
        self.events.push(end);
        self.events
    }

    fn plan(&mut self, at_ms: u64) {
        let index = ("cairn.plan.index", number(self.plans));
        self.push(Point::OnPlanProposed, at_ms, vec![index]);
        self.plans += 1;
    }

    fn start(&mut self, place: Place, at_ms: u64) {
        if !self.is_turn {
            self.push(Point::OnStepStart, at_ms, self.with_step(place, Vec::new()));
        }
        let turn = ("cairn.turn.index", number(self.turns));
        self.push(Point::OnTurnStart, at_ms, self.with_step(place, vec![turn]));
    }

    fn fail(&mut self, place: Place, reason: &str, at_ms: u64) {
        let attributes = self.with_step(place, vec![reason_of(reason)]);
        self.push(Point::OnError, at_ms, attributes);
        self.end_step(place, "failed", at_ms);
    }

    fn stop(&mut self, gate: Gate, place: Place, calls: &[u32], at_ms: u64) {
        if gate.point == Point::OnPlanProposed {
            return self.plan(at_ms);
        }
        for call in calls {
            let tool_turn = ("cairn.tool_turn", number(gate.turn));
            let attributes = match gate.point {
                Point::PreRequest => vec![tool_turn],
                Point::PreToolCall => vec![tool_turn, ("cairn.call.index", number(*call))],
                _ => Vec::new(),
            };
            self.push(gate.point, at_ms, self.with_step(place, attributes));
        }
    }

    fn end_step(&mut self, place: Place, status: &'static str, at_ms: u64) {
        if !self.is_turn {
            let status = ("cairn.step.status", Value::from(status));
            self.push(
                Point::OnPlanStepComplete,
                at_ms,
                self.with_step(place, vec![status]),
            );
        }
    }

    /// Adds the step and the attempt. The one step of a turn has no index.
    fn with_step(&self, place: Place, mut attributes: Attributes) -> Attributes {
        if !self.is_turn {
            attributes.push(("cairn.step.index", number(place.step)));
        }
        if place.attempt > 0 {
            attributes.push(("cairn.attempt", number(place.attempt)));
        }
        attributes
    }

    fn push(&mut self, point: Point, at_ms: u64, attributes: Attributes) {
        if self.events.len() < MOST {
            self.events.push(event(point, at_ms, attributes));
        }
    }
}

type Attributes = Vec<(&'static str, Value)>;

fn event(point: Point, at_ms: u64, attributes: Attributes) -> PastEvent {
    PastEvent {
        name: point.name().into(),
        at_ms,
        attributes,
    }
}

/// Why something failed.
fn reason_of(reason: &str) -> (&'static str, Value) {
    ("reason", Value::from(reason.to_owned()))
}

fn number(number: u32) -> Value {
    Value::from(i64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(step: u32) -> Place {
        Place { step, attempt: 1 }
    }

    fn taken(points: &mut RunPoints, reached: Reached) {
        points.take(&Moment {
            run: 1,
            at_ms: 2,
            reached,
        });
    }

    fn shown(event: &PastEvent) -> String {
        let attributes = event.attributes.iter();
        let attributes: Vec<_> = attributes
            .map(|(name, value)| format!("{}={value}", name.trim_start_matches("cairn.")))
            .collect();
        format!("{} {}", event.name, attributes.join(" "))
    }

    #[test]
    fn a_run_has_every_point_with_its_index() {
        let mut points = RunPoints::begun(1, None);
        for reached in [
            Reached::Reviewed { request: 0 },
            Reached::Applied { request: 0 },
            Reached::Started(place(0)),
            Reached::Compacted(place(0)),
            Reached::Completed(place(0)),
            Reached::Started(place(1)),
            Reached::Failed(place(1), "Server".to_owned()),
            Reached::Skipped(Place {
                step: 2,
                attempt: 0,
            }),
            Reached::Applied { request: 7 },
            Reached::Ending("PLAN_REJECTED".to_owned()),
        ] {
            taken(&mut points, reached);
        }
        let shown: Vec<_> = points.ended(3).iter().map(shown).collect();
        let expected = [
            "OnRunStart ",
            "OnPlanProposed plan.index=0",
            "OnStepStart step.index=0 attempt=1",
            "OnTurnStart turn.index=0 step.index=0 attempt=1",
            "OnCompaction step.index=0 attempt=1",
            "OnTurnEnd turn.index=0 step.index=0 attempt=1",
            "OnPlanStepComplete step.status=completed step.index=0 attempt=1",
            "OnStepStart step.index=1 attempt=1",
            "OnTurnStart turn.index=1 step.index=1 attempt=1",
            "OnError reason=Server step.index=1 attempt=1",
            "OnPlanStepComplete step.status=failed step.index=1 attempt=1",
            "OnPlanStepComplete step.status=skipped step.index=2",
            "OnPlanProposed plan.index=1",
            "OnError reason=PLAN_REJECTED",
            "OnRunEnd ",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_hooks_stop_is_a_point_of_its_run() {
        let mut points = RunPoints::begun(1, None);
        for (point, calls) in [
            (Point::OnPlanProposed, vec![0]),
            (Point::OnStepStart, vec![0]),
            (Point::PreRequest, vec![0]),
            (Point::PreToolCall, vec![0, 2]),
            (Point::OnCompaction, vec![0]),
        ] {
            let gate = Gate {
                turn: 3,
                ..Gate::of_run(point, 1)
            };
            let place = place(5);
            taken(&mut points, Reached::Stopped { gate, place, calls });
        }
        let shown: Vec<_> = points.ended(3).iter().map(shown).collect();
        let expected = [
            "OnRunStart ",
            "OnPlanProposed plan.index=0",
            "OnStepStart step.index=5 attempt=1",
            "PreRequest tool_turn=3 step.index=5 attempt=1",
            "PreToolCall tool_turn=3 call.index=0 step.index=5 attempt=1",
            "PreToolCall tool_turn=3 call.index=2 step.index=5 attempt=1",
            "OnCompaction step.index=5 attempt=1",
            "OnRunEnd ",
        ];
        assert_eq!(shown, expected);
    }

    /// A state has its steps in the order of the plan, and they began and ended in another.
    #[test]
    fn what_a_state_has_is_put_in_order() {
        let at = |tick| TimeOfStep { tick, at: 100 };
        let mut points = RunPoints::begun(1, None);
        points.take_all(
            1,
            vec![
                (at(3), Reached::Started(place(0))),
                (at(4), Reached::Completed(place(0))),
                (at(1), Reached::Started(place(1))),
                (at(2), Reached::Completed(place(1))),
            ],
        );
        let shown: Vec<_> = points.ended(200).iter().map(shown).collect();
        let expected = [
            "OnRunStart ",
            "OnStepStart step.index=1 attempt=1",
            "OnTurnStart turn.index=0 step.index=1 attempt=1",
            "OnTurnEnd turn.index=0 step.index=1 attempt=1",
            "OnPlanStepComplete step.status=completed step.index=1 attempt=1",
            "OnStepStart step.index=0 attempt=1",
            "OnTurnStart turn.index=1 step.index=0 attempt=1",
            "OnTurnEnd turn.index=1 step.index=0 attempt=1",
            "OnPlanStepComplete step.status=completed step.index=0 attempt=1",
            "OnRunEnd ",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_turn_has_the_index_of_its_context_and_no_step() {
        let mut points = RunPoints::begun(1, Some(4));
        taken(&mut points, Reached::Started(place(0)));
        taken(&mut points, Reached::Completed(place(0)));
        let shown: Vec<_> = points.ended(3).iter().map(shown).collect();
        let expected = [
            "OnRunStart ",
            "OnTurnStart turn.index=4 attempt=1",
            "OnTurnEnd turn.index=4 attempt=1",
            "OnRunEnd ",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_end_is_among_the_points_of_a_long_run() {
        let mut points = RunPoints::begun(1, None);
        for step in 0..5000 {
            taken(&mut points, Reached::Started(place(step)));
        }
        let points = points.ended(3);
        assert_eq!(points.len(), MOST + 1);
        assert_eq!(points[MOST].name, "OnRunEnd");
    }
}
