//! Runs that come to a good end.

use super::{Op, PlanSeed, open_calls, sendable_calls, some_call, some_settlement};
use crate::world::{World, complete, finished, look, send};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::AttemptRef;
use cairn_engine::pending::{Subject, pending};
use cairn_engine::state::RunStatus;

/// Plays whatever is outstanding, in an order that `seeds` decide, until nothing is. Models look
/// and send a few times and then end their steps; nothing fails; what is in doubt was done.
pub(crate) fn play_to_the_end(world: &mut World, seed: &PlanSeed, seeds: &[u8]) {
    let mut seeds = seeds.iter().copied().cycle();
    for _ in 0..2_000 {
        let Some(run) = world.session.active_run() else {
            return;
        };
        if run.status == RunStatus::Planning {
            world.planned(Ok(seed.draft()));
            continue;
        }
        for open in pending(&world.session) {
            let answer = match open.id.subject {
                Subject::Call(_) => some_settlement(0),
                Subject::Budget { .. } => Settlement::Retry,
                Subject::Approval(_) | Subject::Plan { .. } => Settlement::Approve,
                Subject::Question(_) => Settlement::Answer {
                    text: "the first".to_owned(),
                },
            };
            if !open.is_answered {
                world.answer(&open.id.to_string(), answer);
            }
        }
        world.now += 20_000;
        world.decide(Input::Tick);
        let chaos = seeds.next().unwrap();
        match chaos % 16 {
            0 => world.play(&Op::TakeOver { holder_dead: true }),
            1 => world.play(&Op::TakeOver { holder_dead: false }),
            2 => world.play(&Op::Lose { attempt: chaos }),
            _ => {}
        }
        if let Some(name) = world.pick_attempt(chaos) {
            play_towards_the_end(world, name, seeds.next().unwrap());
        }
    }
    panic!("the run does not end: {:#?}", world.session.active_run());
}

fn play_towards_the_end(world: &mut World, name: AttemptRef, seed: u8) {
    if let Some(&call) = sendable_calls(&world.session, name).first() {
        world.report(name.step, vec![finished(call, "an output", "")]);
    } else if open_calls(&world.session, name).is_empty() {
        let turns = world.session.attempt(name).unwrap().turns.len();
        let calls = match (turns, seed % 4) {
            (0, 0) => vec![look(), send()],
            (0 | 1, 1) => vec![some_call(5), some_call(2)],
            (1, 2) => vec![],
            _ => vec![complete("it is done")],
        };
        world.reply(name.step, "Some thoughts.", &calls);
    }
}
