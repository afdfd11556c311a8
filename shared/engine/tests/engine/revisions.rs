//! The engine is held to the table of revisions.

use crate::world::notation::plan;
use crate::world::stages::{apply, at, pause};
use crate::world::table::{CHAINS, GRAPHS, Row, STAGES, Stage};
use crate::world::{World, chain, fold, model_step, step_context, with_goal};
use cairn_engine::command::{self, Command};
use cairn_engine::event::{AttemptRef, EventKind};
use cairn_engine::outstanding::Work;
use cairn_engine::plan::StepDraft;
use cairn_engine::revise::{draft_of, inherit_notes};
use cairn_engine::session::{RunStatus, StepStatus};

fn check(row: &Row, stage: Stage) {
    let what = format!("{} while {stage:?}", row.name);
    let mut world = at(stage, row.before);
    let known = 4;
    let reported = contexts(&world);
    let running: Vec<AttemptRef> = world.running().iter().map(|&n| world.attempt(n)).collect();
    let steps = world.run().plan.clone().unwrap().steps;
    world.command(apply(row.after));
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
    // What continues was told what it was told, and what was stopped is not heard any more.
    for ((name, text), before) in reported.into_iter().zip(running) {
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

/// What the running steps were told.
fn contexts(world: &World) -> Vec<(AttemptRef, Option<String>)> {
    let running = world.run().running_attempts();
    let reported = running.map(|(name, ..)| (name, step_context(&world.session, name)));
    reported.collect()
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

fn beside(title: &str, external_id: &str, note: &str) -> StepDraft {
    StepDraft {
        external_id: external_id.to_owned(),
        note: note.to_owned(),
        ..model_step(title)
    }
}

/// They are in no key, so the step stays.
#[test]
fn a_kept_step_has_the_capabilities_the_external_id_and_the_note_of_its_new_plan() {
    let mut world = World::with_plan(chain(vec![model_step("a"), beside("b", "T-1", "slowly")]));
    let mut changed = chain(vec![model_step("a"), beside("b", "T-2", "")]);
    changed.steps[1].capabilities = vec!["gpu".to_owned()];
    world.command(Command::RevisePlan(command::RevisePlan {
        plan: Some(changed),
        apply: true,
        ..command::RevisePlan::default()
    }));
    let plan = world.run().plan.as_ref().unwrap();
    assert_eq!((plan.revision, plan.steps.len()), (2, 2), "both are kept");
    let kept = &plan.steps[1].plan;
    assert_eq!((&*kept.external_id, &*kept.note), ("T-2", ""));
    assert_eq!(kept.capabilities, ["gpu"]);
    let expected = StepDraft {
        id: "2".to_owned(),
        capabilities: vec!["gpu".to_owned()],
        ..beside("b", "T-2", "")
    };
    assert_eq!(draft_of(plan).steps[1], expected);
}

/// Of several steps of the same words, each has those of one.
#[test]
fn a_plan_of_a_model_inherits_external_ids_and_notes_by_the_words_of_steps() {
    let earlier = chain(vec![
        beside("a", "A-1", ""),
        beside("a", "A-2", "slowly"),
        beside("b", "B", "quickly"),
        beside("c", "C", "gone"),
    ]);
    let mut draft = chain(vec![
        model_step("a"),
        beside("b", "own", ""),
        model_step("d"),
        model_step("a"),
        model_step("a"),
    ]);
    inherit_notes(&mut draft, &earlier);
    let told = draft.steps.iter();
    let told: Vec<_> = told.map(|it| (&*it.external_id, &*it.note)).collect();
    let expected = [
        ("A-1", ""),
        ("own", "quickly"),
        ("", ""),
        ("A-2", "slowly"),
        ("", ""),
    ];
    assert_eq!(told, expected);
}
