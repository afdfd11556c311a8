//! What views cost: in proportion to what they are made from.

use crate::world::growth::{carry_out, check_growth, run_chain, started, wide};
use cairn_engine::event::Event;
use cairn_views::plan_diff::diff;
use cairn_views::report;
use cairn_views::tree::Tree;

#[test]
fn folding_the_views_costs_in_proportion_to_the_events() {
    let fold = |journal: &Vec<Event>| {
        let mut tree = Tree::default();
        for (event, seq) in journal.iter().zip(1..) {
            tree.apply(seq, event);
        }
        assert!(!tree.nodes().is_empty() && report::markdown(journal, 1).is_some());
    };
    check_growth(|steps| run_chain(steps).journal, fold);
}

#[test]
fn comparing_plans_costs_in_proportion_to_the_steps() {
    let prepare = |steps| {
        let mut world = started(steps);
        carry_out(&mut world);
        // Backwards: as many steps as can be have moved.
        let mut draft = wide(steps, Some(steps / 2));
        for (step, n) in draft.steps.iter_mut().zip(1..) {
            step.id = n.to_string();
        }
        draft.steps.reverse();
        (world, draft)
    };
    check_growth(prepare, |(world, draft)| {
        let diff = diff(world.run(), draft).unwrap();
        assert!(diff.steps.iter().any(|step| step.moved));
    });
}
