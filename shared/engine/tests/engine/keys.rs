//! Step keys: equal for equal steps, changed by everything that makes a result worthless.

use crate::world::{after, chain, graph, model_step, tool_step};
use cairn_engine::event::{AttemptRef, CallRef};
use cairn_engine::key::{StepKey, call_key, step_keys};
use cairn_engine::plan::{Plan, PlanDraft};
use std::collections::BTreeSet;

fn keys(draft: &PlanDraft) -> Vec<StepKey> {
    step_keys(&Plan::new(draft).unwrap().steps, |_| false)
}

/// The positions at which the keys of two plans differ.
fn changed(before: &PlanDraft, after: &PlanDraft) -> Vec<usize> {
    let (before, after) = (keys(before), keys(after));
    (0..before.len())
        .filter(|&at| before[at] != after[at])
        .collect()
}

fn four_in_a_chain() -> PlanDraft {
    chain(["a", "b", "c", "d"].map(model_step).to_vec())
}

/// a ← b ← d, and c by itself.
fn four_in_a_graph() -> PlanDraft {
    graph(vec![
        model_step("a"),
        after(model_step("b"), &["1"]),
        model_step("c"),
        after(model_step("d"), &["2"]),
    ])
}

#[test]
fn equal_plans_have_equal_keys_and_different_steps_different_ones() {
    assert_eq!(keys(&four_in_a_chain()), keys(&four_in_a_chain()));
    let distinct: BTreeSet<_> = keys(&four_in_a_chain()).into_iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn a_change_in_a_chain_invalidates_everything_from_there_on() {
    for at in 0..4 {
        let mut plan = four_in_a_chain();
        plan.steps[at].description.push('!');
        let expected: Vec<usize> = (at..4).collect();
        assert_eq!(changed(&four_in_a_chain(), &plan), expected);
    }
}

#[test]
fn a_change_in_a_graph_invalidates_only_what_depends_on_it() {
    let expected: [&[usize]; 4] = [&[0, 1, 3], &[1, 3], &[2], &[3]];
    for (at, expected) in expected.iter().enumerate() {
        let mut plan = four_in_a_graph();
        plan.steps[at].title.push('!');
        assert_eq!(changed(&four_in_a_graph(), &plan), *expected);
    }
    let mut plan = four_in_a_graph();
    plan.steps[3].depends_on.push("3".to_owned());
    assert_eq!(changed(&four_in_a_graph(), &plan), [3]);
}

#[test]
fn dependencies_may_come_later_in_the_plan() {
    let forward = graph(vec![
        after(model_step("a"), &["2"]),
        after(model_step("b"), &["3"]),
        model_step("c"),
    ]);
    let backward = graph(vec![
        model_step("c"),
        after(model_step("b"), &["1"]),
        after(model_step("a"), &["2"]),
    ]);
    let mut reversed = keys(&backward);
    reversed.reverse();
    assert_eq!(keys(&forward), reversed);
}

#[test]
fn ids_capabilities_notes_and_the_order_of_dependencies_are_not_in_the_key() {
    let mut plan = four_in_a_graph();
    plan.steps[0].id = "first".to_owned();
    plan.steps[1].depends_on = vec!["first".to_owned(), "first".to_owned()];
    plan.steps[2].capabilities.push("file_ops".to_owned());
    plan.steps[2].external_id = "T-1".to_owned();
    plan.steps[3].note = "quickly".to_owned();
    assert_eq!(keys(&plan), keys(&four_in_a_graph()));
}

#[test]
fn title_and_description_do_not_run_into_each_other() {
    let step = |title: &str, description: &str| {
        let mut step = model_step(title);
        step.description = description.to_owned();
        keys(&chain(vec![step]))
    };
    assert_ne!(step("ab", "c"), step("a", "bc"));
    assert_ne!(step("", "abc"), step("abc", "a"));
}

#[test]
fn a_redo_changes_the_key_and_those_behind_it() {
    let plan = Plan::new(&four_in_a_graph()).unwrap();
    let mut again = plan.clone();
    again.steps[1].redo = 1;
    let redone = step_keys(&again.steps, |_| false);
    let before = step_keys(&plan.steps, |_| false);
    let changed: Vec<usize> = (0..4).filter(|&at| before[at] != redone[at]).collect();
    assert_eq!(changed, [1, 3]);
}

#[test]
fn a_tools_arguments_count_in_canonical_form() {
    let with = |tool: &str, arguments: &str| {
        let mut step = tool_step("look", tool);
        step.tool.as_mut().unwrap().arguments = arguments.to_owned();
        keys(&chain(vec![step]))
    };
    let key = with("look", r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#);
    assert_eq!(key, with("look", r#"{"b":{"d":null,"c":[1,2]},"a":1}"#));
    assert_ne!(key, with("look", r#"{"b":{"d":null,"c":[2,1]},"a":1}"#));
    assert_ne!(
        key,
        with("send", r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#)
    );
    assert_eq!(with("look", ""), with("look", "{}"));
    let of = |number: &str| with("look", &format!(r#"{{"a": {number}}}"#));
    assert_ne!(of("1000000000000000000001"), of("1000000000000000000002"));
    assert_ne!(of("1000000000000000000000"), of("1e21"));
    assert_eq!(of("1e21"), of("1E+21"));
    let mut for_the_model = model_step("look");
    for_the_model.description.clear();
    for_the_model.description.push_str("look");
    assert_ne!(with("look", "{}"), keys(&chain(vec![for_the_model])));
}

#[test]
fn a_call_key_names_one_call() {
    let call = CallRef {
        attempt: AttemptRef {
            run: 1,
            step: 2.into(),
            attempt: 3,
        },
        tool_turn: 4,
        index: 5,
    };
    let mut others = [call; 5];
    others[0].attempt.run = 2;
    others[1].attempt.step = 3.into();
    others[2].attempt.attempt = 4;
    others[3].tool_turn = 5;
    others[4].index = 6;
    let mut keys: BTreeSet<String> = others.iter().map(|&it| call_key("n", "s", it)).collect();
    keys.insert(call_key("n", "s", call));
    keys.insert(call_key("n", "s2", call));
    keys.insert(call_key("n2", "s", call));
    keys.insert(call_key("ns", "", call));
    assert_eq!(keys.len(), 9);
    assert_eq!(call_key("n", "s", call), call_key("n", "s", call));
}

/// Every graph with steps left out has the keys of the graph that never had them.
#[test]
fn a_skipped_step_is_not_in_the_keys_of_those_after_it() {
    let graph = |steps: &[(&str, &[&str])]| {
        let step = |(title, depends_on): &(&str, &[&str])| {
            let mut step = after(model_step(title), depends_on);
            step.id = (*title).to_owned();
            step
        };
        Plan::new(&graph(steps.iter().map(step).collect())).unwrap()
    };
    let with = graph(&[
        ("f", &["c", "e"]),
        ("a", &[]),
        ("b", &["a"]),
        ("c", &["b", "a", "d"]),
        ("d", &["b", "e"]),
        ("e", &[]),
    ]);
    let keys = step_keys(&with.steps, |place| matches!(place.index(), 2 | 4));
    let without = graph(&[
        ("f", &["c", "e"]),
        ("a", &[]),
        ("c", &["a", "e"]),
        ("e", &[]),
    ]);
    let left = step_keys(&without.steps, |_| false);
    assert_eq!([keys[0], keys[1], keys[3], keys[5]], left[..]);
    assert_ne!(keys, step_keys(&with.steps, |_| false));
}
