//! People who hold a run up: pause, resume, skip and cancel, in every status.

use crate::world::notation::plan;
use crate::world::{World, fold, look, send, with_goal};
use cairn_engine::command::{self, Command, LimitOverrides, StartRun};
use cairn_engine::decide::Input;
use cairn_engine::event::Budget;
use cairn_engine::event::{self, Event, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::session::{PerBudget, RunStatus};

pub(crate) fn pause() -> Command {
    Command::PauseRun(command::PauseRun {
        run: 1,
        reason: "lunch".to_owned(),
    })
}

pub(crate) fn resume() -> Command {
    Command::ResumeRun(command::ResumeRun { run: 1 })
}

pub(crate) fn cancel() -> Command {
    Command::CancelRun(command::CancelRun {
        run: 1,
        reason: String::new(),
    })
}

pub(crate) fn skip(step: u32) -> Command {
    Command::SkipStep(command::SkipStep {
        run: 1,
        step: step.into(),
        reason: "not needed".to_owned(),
    })
}

/// The reason of the refusal; empty if it was accepted.
pub(crate) fn answer(events: &[Event]) -> &str {
    let refused = events.iter().find_map(|event| match &event.kind {
        EventKind::CommandRefused(event::CommandRefused { reason, .. }) => Some(reason.name()),
        _ => None,
    });
    refused.unwrap_or("")
}

pub(crate) fn planning() -> World {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world
}

/// a is done, b runs, c and d have not begun.
pub(crate) fn running() -> World {
    let mut world = World::with_plan(plan("a b c d"));
    world.end(1);
    world
}

/// A call of b is in doubt.
pub(crate) fn doubtful() -> World {
    let mut world = running();
    world.reply(2, "", &[send()]);
    let attempt = world.attempt(2);
    world.decide(Input::AttemptLost { attempt });
    world
}

fn out_of_turns() -> World {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 2)]),
        ..LimitOverrides::default()
    };
    world.start_with(plan("a b c d"), limits);
    world.end(1);
    world.reply(2, "", &[look()]);
    world.result(2, 0, "text");
    world
}

fn paused() -> World {
    after(running(), pause())
}

fn completed() -> World {
    let mut world = running();
    world.finish();
    world
}

fn failed() -> World {
    let mut world = running();
    world.fail(2, refused());
    world
}

pub(crate) fn after(mut world: World, command: Command) -> World {
    assert_eq!(answer(&world.command(command)), "");
    world
}

pub(crate) fn refused() -> Failure {
    Failure::new(FailureKind::Llm, "Refused", "no")
}

type Answer = (&'static str, RunStatus);

/// A run, and what each of pause, resume, skip of step 2 and cancel is answered, with its status
/// after it.
#[rustfmt::skip]
fn table() -> Vec<(World, RunStatus, [Answer; 4])> {
    use RunStatus::{Cancelled, Completed, Failed, Paused, Planning, Running, Waiting};
    let doubt = Waiting(WaitReason::InDoubt);
    let budget = Waiting(WaitReason::Budget);
    let ended = |status| [("RUN_ENDED", status); 4];
    let not_paused = "RUN_NOT_PAUSED";
    let no_step = "NO_SUCH_STEP";
    vec![
        (planning(), Planning,
            [("", Paused), (not_paused, Planning), (no_step, Planning), ("", Cancelled)]),
        (after(planning(), pause()), Paused,
            [("RUN_PAUSED", Paused), ("", Planning), (no_step, Paused), ("", Cancelled)]),
        (running(), Running,
            [("", Paused), (not_paused, Running), ("", Running), ("", Cancelled)]),
        (doubtful(), doubt,
            [("", Paused), (not_paused, doubt), ("", Running), ("", Cancelled)]),
        // The next step needs a turn as well.
        (out_of_turns(), budget,
            [("", Paused), (not_paused, budget), ("", budget), ("", Cancelled)]),
        (paused(), Paused,
            [("RUN_PAUSED", Paused), ("", Running), ("", Paused), ("", Cancelled)]),
        (completed(), Completed, ended(Completed)),
        (failed(), Failed, ended(Failed)),
        (after(running(), cancel()), Cancelled, ended(Cancelled)),
    ]
}

#[test]
fn every_command_in_every_status() {
    for (world, status, answers) in table() {
        assert_eq!(world.run().status, status);
        let commands = [pause(), resume(), skip(2), cancel()];
        for (command, (expected, after)) in commands.into_iter().zip(answers) {
            let mut world = world.clone();
            let events = world.command(command.clone());
            let found = (answer(&events), world.run().status);
            assert_eq!(found, (expected, after), "{command:?} while {status:?}");
            assert!(world.session.commands.is_empty(), "it is answered");
            assert_eq!(fold(&world.journal), world.session);
        }
    }
}

#[test]
fn commands_about_what_is_not_there_are_refused() {
    let mut world = running();
    let of_run = |run| {
        Command::PauseRun(command::PauseRun {
            run,
            reason: String::new(),
        })
    };
    assert_eq!(answer(&world.command(of_run(2))), "NO_SUCH_RUN");
    assert_eq!(
        answer(&world.command(Command::ResumeRun(command::ResumeRun { run: 2 }))),
        "NO_SUCH_RUN"
    );
    assert_eq!(answer(&world.command(skip(0))), "NO_SUCH_STEP");
    assert_eq!(answer(&world.command(skip(5))), "NO_SUCH_STEP");
    assert_eq!(answer(&world.command(skip(1))), "STEP_ENDED");
}

#[test]
fn a_step_that_has_not_begun_may_be_skipped_and_so_may_the_last() {
    let mut world = running();
    world.command(skip(4));
    world.command(skip(3));
    assert_eq!(world.running(), [2]);
    world.end(2);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.run().end.answer, "", "the last step says nothing");
}

#[test]
fn a_run_that_is_paused_while_it_is_planned_takes_its_plan_and_begins_with_the_run() {
    let mut world = after(planning(), pause());
    assert_eq!(world.outstanding(), []);
    world.planned(Ok(plan("a b")));
    assert_eq!(world.run().status, RunStatus::Paused);
    assert_eq!((world.outstanding(), world.running()), (vec![], vec![]));
    world.command(resume());
    assert_eq!(
        (world.run().status, world.running()),
        (RunStatus::Running, vec![1])
    );

    let mut world = after(planning(), pause());
    world.planned(Err(refused()));
    assert_eq!(world.run().status, RunStatus::Failed);

    let mut world = after(after(planning(), pause()), resume());
    assert_eq!(
        world.outstanding(),
        [Work::Plan {
            run: 1,
            request: None,
        }]
    );
    world.planned(Ok(plan("a b")));
    assert_eq!(world.running(), [1]);
}

/// The start of a run was stored and not answered when its process died; a person cancels it.
#[test]
fn a_command_for_the_newest_run_is_for_what_was_stored_before_it() {
    let mut world = World::new();
    for command in [
        Command::StartRun(StartRun {
            plan: Some(plan("a b")),
            ..StartRun::default()
        }),
        Command::CancelRun(command::CancelRun {
            run: 0,
            reason: String::new(),
        }),
    ] {
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: format!("request-{}", world.session.seq),
            command,
        }));
    }
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(world.run().status, RunStatus::Cancelled);
    assert!(world.outstanding().is_empty());
}
