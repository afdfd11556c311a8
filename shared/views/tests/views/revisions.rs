//! The difference of two plans is held to the table of revisions: what it says is what applying does.

use crate::world::World;
use crate::world::notation::plan;
use crate::world::stages::{apply, at};
use crate::world::table::{CHAINS, GRAPHS, STAGES};
use cairn_engine::session::{Step, StepNo, StepStatus};
use cairn_views::plan_diff::{PlanDiff, diff};

#[test]
fn what_is_said_of_another_plan_is_what_applying_it_does() {
    for row in CHAINS.iter().chain(&GRAPHS) {
        for stage in STAGES {
            let what = format!("{} while {stage:?}", row.name);
            let mut world = at(stage, row.before);
            let said = diff(world.run(), &plan(row.after)).unwrap();
            world.command(apply(row.after));
            check_said(&what, &said, &world);
        }
    }
}

/// What people read before is so afterwards.
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
