//! Hooks are asked about calls before they are made, and about their results before a model gets these.

mod approvals;
mod before;
mod results;
mod waiting;

use crate::previews::writer;
use crate::world::{World, chain, hooked, model_step};
use cairn_engine::command::{Command, StartRun};
use cairn_engine::event::Event;
use cairn_engine::hooks::{
    Gate, Mutation, Outcome, PinnedHook, Point, Points, PresentHook, PresentHooks, VerdictKind,
};
use cairn_engine::outstanding::Work;
use cairn_engine::rules::Answer;

/// The arguments that hooks send in place of the model's.
const CHANGED: &str = r#"{"to":"ops"}"#;

fn guard(points: &[Point], tools: &[&str]) -> PresentHooks {
    let pin = PinnedHook {
        name: "guard".to_owned(),
        digest: "first".to_owned(),
        points: points.iter().copied().collect::<Points>(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
    };
    PresentHooks(vec![PresentHook { pin, agents: None }])
}

/// No run yet. `write` writes files, and asks by default.
fn idle(hooks: PresentHooks) -> World {
    let mut world = World::new();
    world.tools.insert("write".to_owned(), writer(Answer::Ask));
    world.hooks = hooks;
    world
}

/// A run of one step that a person follows.
fn world(points: &[Point]) -> World {
    let mut world = idle(guard(points, &[]));
    start(&mut world, true);
    world
}

fn start(world: &mut World, answers_questions: bool) {
    world.command(Command::StartRun(StartRun {
        plan: Some(chain(vec![model_step("a")])),
        answers_questions,
        ..StartRun::default()
    }));
}

fn outcome(index: u32, verdict: VerdictKind, text: &str) -> Outcome {
    let hook = match verdict {
        VerdictKind::Proceed => "",
        _ => "guard",
    };
    Outcome {
        index,
        verdict,
        hook: hook.to_owned(),
        text: text.to_owned(),
        mutation: None,
        answers: Vec::new(),
    }
}

fn mutate(index: u32, mutation: Mutation) -> Outcome {
    Outcome {
        mutation: Some(mutation),
        ..outcome(index, VerdictKind::Mutate, "")
    }
}

fn arguments(index: u32, arguments: &str) -> Outcome {
    mutate(index, Mutation::Arguments(arguments.to_owned()))
}

/// The question about the calls of the last reply.
fn calls(world: &World) -> Gate {
    let call = world.call(1, 0);
    Gate::of_attempt(Point::PreToolCall, call.attempt, call.tool_turn)
}

fn is_asked(world: &World, gate: Gate) -> bool {
    world.outstanding().contains(&Work::AskHooks(gate))
}

fn answer(world: &mut World, gate: Gate, outcomes: Vec<Outcome>) -> Vec<Event> {
    assert!(is_asked(world, gate), "{:?}", world.outstanding());
    let events = world.decide(hooked(gate, outcomes));
    assert_eq!(world.folded(), world.session);
    events
}

fn answer_calls(world: &mut World, outcomes: Vec<Outcome>) -> Vec<Event> {
    let gate = calls(world);
    answer(world, gate, outcomes)
}
