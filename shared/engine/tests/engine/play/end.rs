//! Runs that come to an end.

use super::{Op, PlanSeed, open_calls, sendable_calls, some_call, some_settlement};
use crate::world::{World, complete, finished, hooked, look, send};
use cairn_engine::command::Settlement;
use cairn_engine::decide::{Answer, Input, Previewed};
use cairn_engine::event::{AttemptRef, CallPreview};
use cairn_engine::hooks::Outcome;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, Pending, Subject, pending};
use cairn_engine::session::HookAsk;

/// What people say when they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum People {
    /// Yes, and what was in doubt was done.
    Agree,
    /// Whatever the seeds say.
    SayAnything,
}

/// Plays what is outstanding, and nothing else, in an order that `seeds` decide, until the run has
/// ended. Models look and send a few times and then end their steps; nothing fails but by people.
pub(crate) fn play_to_the_end(world: &mut World, seed: &PlanSeed, seeds: &[u8], people: People) {
    let mut seeds = seeds.iter().copied().cycle();
    for round in 0..2_000 {
        if world.session.active_run().is_none() {
            return;
        }
        // Somebody who never agrees to a plan gets one after the other.
        let people = [people, People::Agree][usize::from(round > 100)];
        for open in pending(&world.session) {
            settle(world, &open, people, seeds.next().unwrap());
        }
        world.now += 20_000;
        world.decide(Input::Tick);
        let chaos = seeds.next().unwrap();
        match chaos % 16 {
            // The same trouble in each round would keep everything from its end.
            _ if round >= 500 => {}
            0 => world.play(&Op::TakeOver { holder_dead: true }),
            1 => world.play(&Op::TakeOver { holder_dead: false }),
            2 => world.play(&Op::Lose { attempt: chaos }),
            3..6 => play_pool(world, chaos),
            _ => {}
        }
        let mut work = world.outstanding();
        work.retain(|work| !matches!(work, Work::Wake { .. }));
        // Seeds that are said again and again must not leave out the same work for ever, and neither must rounds that
        // come with the same budget again.
        let chosen = match round < 500 {
            true => round + usize::from(chaos),
            false => round.wrapping_mul(2_654_435_761) >> 16,
        };
        match work.get(chosen % work.len().max(1)) {
            Some(Work::Plan { request: None, .. }) => world.planned(Ok(seed.draft())),
            Some(Work::Plan {
                request: Some(_), ..
            }) => {
                world.revised(Ok(seed.draft()));
            }
            Some(&Work::RunStep(name)) => {
                play_towards_the_end(world, name, seeds.next().unwrap());
            }
            Some(&Work::Answer(call)) => {
                let answer = Answer::found("what was asked for".to_owned());
                world.decide(Input::Answered { call, answer });
            }
            Some(&Work::Preview(call)) => {
                let outcome = Previewed::Shown(CallPreview::default());
                world.decide(Input::Previewed { call, outcome });
            }
            Some(&Work::AskHooks(gate)) => {
                let questions = world.session.hook_questions(gate);
                let outcomes = questions
                    .iter()
                    .map(|question| Outcome::new(question.index));
                let outcomes = outcomes.collect();
                world.decide(hooked(gate, outcomes));
            }
            Some(Work::HandleCommand | Work::Wake { .. }) | None => {}
        }
    }
    panic!("the run does not end: {:#?}", world.session.active_run());
}

/// A person answers, or the pool has what an attempt lacks.
fn settle(world: &mut World, open: &Pending, people: People, seed: u8) {
    let is_found = people == People::Agree || seed.is_multiple_of(2);
    if let Subject::Shortage(name) = open.id().subject
        && is_found
    {
        let attempts = vec![name];
        world.decide(Input::Found { attempts });
        return;
    }
    let answer = answer_to(open, people, seed);
    if !open.is_answered {
        world.answer(&open.id().to_string(), answer);
    }
}

/// An attempt gets its resources, or the pool lacks some for it.
fn play_pool(world: &mut World, seed: u8) {
    let attempt = seed;
    world.play(&match seed % 16 {
        3 => Op::Placed { attempt },
        kind => Op::Short {
            attempt,
            is_none: kind == 4,
        },
    });
}

fn answer_to(open: &Pending, people: People, seed: u8) -> Settlement {
    let reason = "no".to_owned();
    let agrees = people == People::Agree || !seed.is_multiple_of(3);
    match open.id().subject {
        Subject::Call(_) if agrees => some_settlement(0),
        Subject::Call(_) => some_settlement(2 + seed % 3),
        Subject::Budget { .. } if agrees => Settlement::Retry,
        Subject::Budget { .. } => Settlement::Fail { reason },
        Subject::Hook { .. } => of_hooks(open, agrees),
        Subject::Approval(_) | Subject::Plan { .. } if agrees => Settlement::Approve,
        Subject::Approval(_) | Subject::Plan { .. } => Settlement::Deny { reason },
        Subject::Context(_) if agrees => Settlement::Retry,
        Subject::Context(_) | Subject::Shortage(_) => Settlement::Fail { reason },
        Subject::Question(_) => Settlement::Answer {
            text: "the first".to_owned(),
        },
    }
}

fn of_hooks(open: &Pending, agrees: bool) -> Settlement {
    let reason = "no".to_owned();
    match &open.asked {
        _ if agrees => Settlement::Approve,
        Asked::Hook {
            ask: HookAsk::Changed { .. },
            ..
        } => Settlement::Fail { reason },
        _ => Settlement::Deny { reason },
    }
}

fn play_towards_the_end(world: &mut World, name: AttemptRef, seed: u8) {
    if let Some(&call) = sendable_calls(&world.session, name).first() {
        world.report(name.step, vec![finished(call, "an output", "")]);
    } else if open_calls(&world.session, name).is_empty() {
        let attempt = world.session.attempt(name).unwrap();
        if attempt.is_gated() {
            return;
        }
        let turns = attempt.tool_turns as usize;
        let calls = match (turns, seed % 4) {
            (0, 0) => vec![look(), send()],
            (0 | 1, 1) => vec![some_call(5), some_call(2)],
            (1, 2) => vec![],
            _ => vec![complete("it is done")],
        };
        world.reply(name.step, "Some thoughts.", &calls);
    }
}
