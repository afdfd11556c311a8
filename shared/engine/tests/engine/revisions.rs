//! The engine is held to the table of revisions.

mod table;

use crate::world::notation::plan;
use crate::world::{World, fold, send, with_goal};
use cairn_engine::command::{self, Command, RevisePlan, Settlement};
use cairn_engine::context::step_context;
use cairn_engine::decide::Input;
use cairn_engine::event::{AttemptRef, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::session::{RunStatus, Step, StepNo, StepStatus};
use cairn_engine::views::plan_diff::{self, PlanDiff};
use table::{CHAINS, GRAPHS, Row, STAGES, Stage};

/// A run of four steps at that stage.
fn at(stage: Stage, before: &str) -> World {
    let mut world = World::with_plan(plan(before));
    world.end(1);
    match stage {
        Stage::Running => {}
        Stage::Waiting => {
            world.reply(2, "", &[send()]);
            let attempt = world.attempt(2);
            world.decide(Input::AttemptLost { attempt });
        }
        Stage::Paused => drop(world.command(pause())),
        Stage::Completed => {
            (2..=4).for_each(|step| world.end(step));
        }
        Stage::Failed | Stage::Cancelled => {
            if before.starts_with("g:") {
                world.end(3);
            }
            if stage == Stage::Failed {
                world.fail(2, Failure::new(FailureKind::Llm, "Refused", "no"));
            } else {
                world.command(cancel());
            }
        }
    }
    world
}

fn pause() -> Command {
    Command::PauseRun(command::PauseRun {
        run: 1,
        reason: String::new(),
    })
}

fn cancel() -> Command {
    Command::CancelRun(command::CancelRun {
        run: 1,
        reason: String::new(),
    })
}

fn apply(text: &str) -> Command {
    Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(plan(text)),
        apply: true,
        ..RevisePlan::default()
    })
}

impl World {
    /// Ends a running step well, whatever it is.
    pub(crate) fn end(&mut self, step: u32) {
        let name = self.attempt(step);
        let is_tool_step = self.session.step(name).unwrap().plan.tool.is_some();
        if is_tool_step {
            self.result(step, 0, "an output");
        } else {
            self.complete(step, "it is done");
        }
    }

    /// Resumes, answers and ends whatever there is, until the run has ended.
    pub(crate) fn finish(&mut self) {
        if self.run().status == RunStatus::Paused {
            self.command(Command::ResumeRun(command::ResumeRun { run: 1 }));
        }
        self.now += 1_000_000;
        for open in pending(&self.session) {
            let output = "a person saw it".to_owned();
            self.answer(&open.id().to_string(), Settlement::Done { output });
        }
        while let Some(&step) = self.running().first() {
            self.end(step);
        }
    }
}

fn check(row: &Row, stage: Stage) {
    let what = format!("{} while {stage:?}", row.name);
    let mut world = at(stage, row.before);
    let known = 4;
    let told = contexts(&world);
    let running: Vec<AttemptRef> = world.running().iter().map(|&n| world.attempt(n)).collect();
    let steps = world.run().plan.clone().unwrap().steps;
    let said = plan_diff::diff(world.run(), &plan(row.after)).unwrap();
    world.command(apply(row.after));
    check_said(&what, &said, &world);
    let expected = row.fates(stage);
    assert_eq!(world.fates(known), expected, "{what}");
    let is_done = !expected.contains(['n', 'r']) && stage == Stage::Completed;
    let waits = stage == Stage::Waiting && expected.contains("2r");
    match world.run().status {
        RunStatus::Paused => assert_eq!(stage, Stage::Paused, "{what}"),
        RunStatus::Waiting(_) => assert!(waits, "{what}"),
        RunStatus::Completed => assert!(is_done, "{what}"),
        RunStatus::Running => assert!(!is_done && !waits && stage != Stage::Paused, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    // What goes on was told what it was told, and what was stopped is not heard any more.
    for ((name, text), before) in told.into_iter().zip(running) {
        if world.session.attempt(name).is_some() {
            assert_eq!(step_context(&world.session, name), text, "{what}");
            assert_eq!(name, before);
        } else {
            assert!(!world.outstanding().contains(&Work::RunStep(name)));
            let late = crate::world::report_reply(name, (0, 0), "late", &[]);
            assert!(world.decide(late).is_empty(), "{what}");
        }
    }
    for (step, number) in steps.iter().zip(1..) {
        if let StepStatus::Completed { .. } = step.status {
            assert_eq!(&step.status, world.status(number), "{what}");
        }
    }
    assert_eq!(fold(&world.journal), world.session, "{what}");
    world.finish();
    assert_eq!(world.run().status, RunStatus::Completed, "{what}");
    assert_eq!(fold(&world.journal), world.session, "{what}");
}

/// What people are told before is what is so afterwards.
fn check_said(what: &str, said: &PlanDiff, world: &World) {
    let plan = world.run().plan.as_ref().unwrap();
    let is_kept = |number: &StepNo| *number <= StepNo::new(4);
    let kept = plan
        .current()
        .map(|(number, _)| Some(number).filter(is_kept));
    let numbers = said.steps.iter().map(|step| step.number);
    assert!(numbers.eq(kept), "{what}: {said:?}");
    let dropped = plan
        .steps
        .iter()
        .zip(StepNo::all())
        .filter(|(step, _)| step.place.is_none());
    let dropped: Vec<(StepNo, &Step)> = dropped.map(|(step, number)| (number, step)).collect();
    let numbers = dropped.iter().map(|(number, _)| *number);
    assert!(
        said.dropped.iter().map(|it| it.number).eq(numbers),
        "{what}: {said:?}"
    );
    let is_superseded = |step: &Step| match &step.status {
        StepStatus::Skipped { reason, .. } => reason == "superseded",
        _ => false,
    };
    let stopped = dropped.iter().filter(|(_, step)| is_superseded(step));
    assert!(
        stopped
            .map(|(number, _)| *number)
            .eq(said.stopped.iter().copied()),
        "{what}"
    );
    let effects = dropped.iter().flat_map(|(_, step)| &step.effects);
    assert!(effects.eq(&said.effects), "{what}: {said:?}");
}

/// What the running steps were told.
fn contexts(world: &World) -> Vec<(AttemptRef, Option<String>)> {
    let running = world.run().running_attempts();
    let told = running.map(|(name, ..)| (name, step_context(&world.session, name)));
    told.collect()
}

#[test]
fn the_table_of_chains() {
    for row in &CHAINS {
        STAGES.iter().for_each(|&stage| check(row, stage));
    }
}

#[test]
fn the_table_of_graphs() {
    for row in &GRAPHS {
        STAGES.iter().for_each(|&stage| check(row, stage));
    }
}

/// There is nothing to keep yet, and the planner's own plan comes too late.
#[test]
fn while_planning_every_plan_is_the_first() {
    for is_paused in [false, true] {
        for row in CHAINS.iter().chain(&GRAPHS) {
            let mut world = World::new();
            world.command(with_goal("a goal"));
            if is_paused {
                world.command(pause());
            }
            world.command(apply(row.after));
            let numbers = 1..=plan(row.after).steps.len();
            let expected: Vec<String> = numbers.map(|number| format!("{number}n")).collect();
            assert_eq!(world.fates(0), expected.join(" "), "{}", row.name);
            let status = [RunStatus::Running, RunStatus::Paused][usize::from(is_paused)];
            assert_eq!(world.run().status, status, "{}", row.name);
            let before = world.session.clone();
            world.planned(Ok(plan(row.before)));
            assert_eq!(world.session, before, "{}", row.name);
            world.finish();
            assert_eq!(world.run().status, RunStatus::Completed, "{}", row.name);
        }
    }
}

/// The command does what the rows named "redo" say.
#[test]
fn a_step_is_redone_as_if_its_plan_said_so() {
    for (rows, redone) in [
        (&CHAINS[..], "a*1 b c d"),
        (&GRAPHS[..], "g: a*1 b c<a d<b,c"),
    ] {
        let row = rows.iter().find(|row| row.name == "redo").unwrap();
        assert_eq!(row.after, redone);
        for stage in STAGES {
            let (mut by_plan, mut by_command) = (at(stage, row.before), at(stage, row.before));
            by_plan.command(apply(row.after));
            by_command.command(Command::RedoStep(command::RedoStep {
                run: 1,
                step: 1.into(),
            }));
            let is_plan = |event: &&cairn_engine::event::Event| {
                matches!(event.kind, EventKind::PlanApplied(_))
            };
            let plan_of = |world: &World| world.journal.iter().rfind(is_plan).cloned();
            assert_eq!(plan_of(&by_plan), plan_of(&by_command), "{stage:?}");
            assert_eq!(by_plan.run(), by_command.run(), "{stage:?}");
        }
    }
}
