//! Hooks are asked at the points of runs, turns, requests and plans. Those of calls are in `calls_hooked`.

mod ends;
mod histories;
mod lifecycle;
mod questions;
mod requests;
mod starts;

use crate::world::{World, chain, hooked, kinds, model_step};
use cairn_engine::command::{ChangeContext, Command, CompactContext, ContextOp};
use cairn_engine::event::WaitReason;
use cairn_engine::failure::FailureKind;
use cairn_engine::hooks::{
    Gate, Outcome, Payload, PinnedHook, Point, Points, PresentHook, PresentHooks, Verdict,
};
use cairn_engine::message::Message;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{RunStatus, Session};

const HOOK: RunStatus = RunStatus::Waiting(WaitReason::Hook);

fn guard(points: &[Point]) -> PresentHooks {
    let pin = PinnedHook {
        name: "guard".to_owned(),
        digest: "first".to_owned(),
        points: points.iter().copied().collect::<Points>(),
        tools: Vec::new(),
    };
    PresentHooks(vec![PresentHook { pin, agents: None }])
}

/// No run yet.
fn idle(points: &[Point]) -> World {
    let mut world = World::new();
    world.hooks = guard(points);
    world
}

/// A run of one step.
fn world(points: &[Point]) -> World {
    let mut world = idle(points);
    world.start(chain(vec![model_step("a")]));
    world
}

/// The answer of one hook.
fn outcome(verdict: Verdict) -> Outcome {
    let mut outcome = Outcome::new(0);
    outcome.take("guard", verdict, None, 5);
    outcome
}

fn block() -> Verdict {
    Verdict::Block("not today".to_owned())
}

fn person() -> Verdict {
    Verdict::RequireApproval("look at it".to_owned())
}

impl World {
    /// The only question that is asked.
    fn gate(&self) -> Gate {
        let gates = self.session.open_gates();
        let [gate] = gates[..] else {
            panic!("{gates:?}");
        };
        let works: Vec<_> = self.outstanding();
        assert!(works.contains(&Work::AskHooks(gate)), "{works:?}");
        assert!(self.session.is_open(gate));
        gate
    }

    /// What it is about.
    fn payload(&self) -> Payload {
        let questions = self.session.hook_questions(self.gate());
        let [question] = &questions[..] else {
            panic!("{questions:?}");
        };
        question.payload.clone()
    }

    /// Answers the only question, which is asked at this point.
    fn hook(&mut self, point: Point, verdict: Verdict) -> Vec<String> {
        let gate = self.gate();
        assert_eq!(gate.point, point);
        let outcomes = vec![outcome(verdict)];
        let input = hooked(gate, outcomes);
        let events = self.decide(input.clone());
        assert!(self.decide(input).is_empty(), "it was answered");
        check(self);
        kinds(&events)
    }
}

/// The fold of the journal, and a checkpoint, are the same state.
fn check(world: &World) {
    assert_eq!(world.folded(), world.session);
    let bytes = world.session.to_checkpoint().unwrap();
    let restored = Session::from_checkpoint(&bytes);
    assert_eq!(restored.as_ref(), Some(&world.session));
}

fn is_planning(world: &World) -> bool {
    let plan = |work: &Work| matches!(work, Work::Plan { .. });
    world.outstanding().iter().any(plan)
}

/// Why the newest run failed.
fn failure(world: &World) -> (FailureKind, String) {
    let run = world.run();
    assert_eq!(run.status, RunStatus::Failed);
    let failure = run.end.failure.clone().unwrap();
    assert_eq!(failure.reason, "HOOK_BLOCKED");
    (failure.kind, failure.message)
}

fn blocked(point: Point) -> (FailureKind, String) {
    let message = format!("hook 'guard' blocked {}: not today", point.name());
    (FailureKind::HookBlocked, message)
}

/// A context with three messages, of which one is to stay.
fn compacting() -> World {
    let mut world = idle(&[Point::OnCompaction, Point::OnTurnStart, Point::PreRequest]);
    let ops = ["one", "two", "three"].map(|text| ContextOp::Append(Message::user(text)));
    world.command(Command::ChangeContext(ChangeContext {
        ops: ops.into(),
        ..ChangeContext::default()
    }));
    world.command(Command::CompactContext(CompactContext {
        keep: 1,
        ..CompactContext::default()
    }));
    world
}
