//! What makes a plan, and how each fault is named.

use crate::world::{World, after, chain, fold, graph, model_step, tool_step};
use cairn_engine::canonical::to_canonical_json;
use cairn_engine::event::{self, EventKind};
use cairn_engine::key::step_keys;
use cairn_engine::plan::{MAX_STEPS, Plan, PlanDraft, StepDraft};
use cairn_engine::session::Place;
use serde_json::json;
use std::cmp::Ordering;

fn fault(draft: &PlanDraft) -> String {
    Plan::accept(draft).unwrap_err().to_string()
}

/// Resources come and go, so a plan may name a capability that none has.
#[test]
fn a_capability_is_a_name_and_perhaps_a_level() {
    let needs = |capabilities: &[&str]| {
        let mut step = model_step("c");
        step.capabilities = capabilities.iter().map(|&it| it.to_owned()).collect();
        chain(vec![model_step("a"), step])
    };
    assert!(Plan::accept(&needs(&["file_ops", "gpu>=5"])).is_ok());
    for bad in ["GPU", "gpu>5", "gpu>=many"] {
        let expected = format!(
            "step 1 needs the capability '{bad}', which is no name of one; allowed: NAME or \
             NAME>=LEVEL, where NAME is 1 to 64 lower-case letters, digits, '_', '-', '.' or ':'"
        );
        assert_eq!(fault(&needs(&["file_ops", bad])), expected);
    }
    let quoted = fault(&needs(&[&"x".repeat(1_000_000)]));
    assert!(quoted.len() < 1000, "{}", quoted.len());
}

#[test]
fn an_external_id_and_a_note_have_a_longest_length() {
    let with = |external_id: usize, note: usize| {
        let step = StepDraft {
            external_id: "i".repeat(external_id),
            note: "n".repeat(note),
            ..model_step("b")
        };
        chain(vec![model_step("a"), step])
    };
    let plan = Plan::accept(&with(128, 4096)).unwrap();
    assert_eq!(
        (plan.steps[1].external_id.len(), plan.steps[1].note.len()),
        (128, 4096)
    );
    let expected = "the 'external_id' of step 1 has 129 bytes; at most 128 are allowed";
    assert_eq!(fault(&with(129, 0)), expected);
    let expected = "the 'note' of step 1 has 4097 bytes; at most 4096 are allowed";
    assert_eq!(fault(&with(0, 4097)), expected);
}

/// What is accepted may change between versions: a journal that an earlier version accepted stays
/// readable.
#[test]
fn a_journal_with_a_capability_that_is_no_longer_accepted_is_read() {
    let mut journal = World::with_plan(chain(vec![model_step("a")])).journal;
    let plans = journal
        .iter_mut()
        .filter_map(|event| match &mut event.kind {
            EventKind::PlanApplied(event::PlanApplied { plan, .. }) => Some(plan),
            _ => None,
        });
    for plan in plans {
        plan.steps[0].capabilities = vec!["GPU".to_owned()];
    }
    let session = fold(&journal);
    let plan = session.run(1).unwrap().plan.as_ref().unwrap();
    assert_eq!(plan.steps[0].plan.capabilities, ["GPU"]);
}

#[test]
fn every_fault_is_named() {
    let named = |mut step: StepDraft, id: &str| {
        step.id = id.to_owned();
        step
    };
    let with_arguments = |arguments: &str| {
        let mut step = tool_step("t", "look");
        step.tool.as_mut().unwrap().arguments = arguments.to_owned();
        chain(vec![step])
    };
    let nothing = StepDraft {
        title: "t".to_owned(),
        description: "  ".to_owned(),
        ..StepDraft::default()
    };
    let cases = [
        (chain(vec![]), "a plan needs at least one step"),
        (
            chain(vec![model_step("a"), nothing]),
            "step 1 lacks 'description'",
        ),
        (
            chain(vec![
                named(model_step("a"), "x"),
                named(model_step("b"), "x"),
            ]),
            "steps 0 and 1 have the same id 'x'; ids must be unique",
        ),
        (
            chain(vec![model_step("a"), named(model_step("b"), "1")]),
            "steps 0 and 1 have the same id '1'; ids must be unique",
        ),
        (
            graph(vec![after(model_step("a"), &["z"])]),
            "step 0 depends on 'z', which is not a step of this plan",
        ),
        (
            graph(vec![after(model_step("a"), &["1"])]),
            "steps depend on each other in a circle: 1 → 1",
        ),
        (
            chain(vec![model_step("a"), after(model_step("b"), &["1"])]),
            "step 1 has 'depends_on' in a plan of order 'chain'; use order 'graph'",
        ),
        (
            with_arguments("[1]"),
            "the arguments of step 0 are not a JSON object: it is another kind of value",
        ),
    ];
    for (draft, expected) in cases {
        assert_eq!(fault(&draft), expected);
    }
    assert!(
        fault(&with_arguments("{"))
            .starts_with("the arguments of step 0 are not a JSON object: EOF")
    );
    let many = chain(vec![model_step("a"); MAX_STEPS + 1]);
    assert_eq!(
        fault(&many),
        "the plan has 10001 steps; at most 10000 are allowed"
    );
}

/// People count steps from 1, and are told which field it is.
#[test]
fn every_fault_has_a_place() {
    let named = |step: StepDraft, id: &str| StepDraft {
        id: id.to_owned(),
        ..step
    };
    let second = |step: StepDraft| chain(vec![model_step("a"), step]);
    let mut no_object = tool_step("t", "look");
    no_object.tool.as_mut().unwrap().arguments = "[1]".to_owned();
    for (draft, path, problem) in [
        (chain(vec![]), "steps", "a plan needs at least one step"),
        (
            second(StepDraft::default()),
            "steps.description",
            "step 1 lacks 'description' (counted from 0: steps[1])",
        ),
        (
            chain(vec![
                named(model_step("a"), "x"),
                named(model_step("b"), "x"),
            ]),
            "steps.id",
            "steps 1 and 2 have the same id 'x'; ids must be unique",
        ),
        (
            graph(vec![model_step("a"), after(model_step("b"), &["z"])]),
            "steps.depends_on",
            "step 2 depends on 'z', which is not a step of this plan",
        ),
        (
            graph(vec![after(model_step("a"), &["1"])]),
            "steps",
            "steps depend on each other in a circle: 1 → 1",
        ),
        (
            second(after(model_step("b"), &["1"])),
            "steps.depends_on",
            "step 2 has 'depends_on' in a plan of order 'chain'; use order 'graph'",
        ),
        (
            second(no_object),
            "steps.arguments",
            "the arguments of step 2 are not a JSON object: it is another kind of value",
        ),
        (
            second(tool_step("b", "read_result")),
            "steps.tool",
            "step 2 names the tool 'read_result', which is for models only; a plan cannot name it",
        ),
    ] {
        let located = Plan::accept(&draft).unwrap_err().located();
        assert_eq!((&*located.path(), &*located.problem), (path, problem));
    }
}

#[test]
fn a_fault_of_what_a_step_says_of_itself_has_a_place() {
    let second = |step: StepDraft| chain(vec![model_step("a"), step]);
    let needs_gpu = StepDraft {
        capabilities: vec!["GPU".to_owned()],
        ..model_step("b")
    };
    let with_long_note = StepDraft {
        note: "n".repeat(4097),
        ..model_step("b")
    };
    for (draft, path, problem) in [
        (
            second(needs_gpu),
            "steps.capabilities",
            "step 2 needs the capability 'GPU', which is no name of one; allowed: NAME or \
             NAME>=LEVEL, where NAME is 1 to 64 lower-case letters, digits, '_', '-', '.' or ':'",
        ),
        (
            second(with_long_note),
            "steps.note",
            "the 'note' of step 2 has 4097 bytes; at most 4096 are allowed",
        ),
    ] {
        let located = Plan::accept(&draft).unwrap_err().located();
        assert_eq!((&*located.path(), &*located.problem), (path, problem));
    }
}

#[test]
fn a_circle_is_named_along_its_dependencies_and_nothing_else_is() {
    let step = |id: &str, depends_on: &[&str]| {
        let mut step = after(model_step(id), depends_on);
        step.id = id.to_owned();
        step
    };
    // "before" leads into the circle and "behind" out of it: neither is on it.
    let draft = graph(vec![
        step("before", &[]),
        step("behind", &["a"]),
        step("a", &["before", "b"]),
        step("b", &["c"]),
        step("c", &["a"]),
    ]);
    let message = fault(&draft);
    let circle = message
        .strip_prefix("steps depend on each other in a circle: ")
        .unwrap();
    let names: Vec<&str> = circle.split(" → ").collect();
    assert_eq!(names.first(), names.last());
    assert_eq!(names.len(), 4, "{circle}");
    for pair in names.windows(2) {
        let later = draft.steps.iter().find(|step| step.id == pair[1]).unwrap();
        assert!(later.depends_on.contains(&pair[0].to_owned()), "{circle}");
    }
}

#[test]
fn long_chains_and_dense_graphs_take_proportionate_time() {
    let long = chain((0..MAX_STEPS).map(|n| model_step(&n.to_string())).collect());
    let plan = Plan::new(&long).unwrap();
    assert_eq!(step_keys(&plan.steps, |_| false).len(), MAX_STEPS);

    // Every step depends on all before it; and the same with the steps in reverse.
    let ids: Vec<String> = (1..=600).map(|n: u32| n.to_string()).collect();
    let dense = (0..ids.len()).map(|at| StepDraft {
        depends_on: ids[..at].to_vec(),
        ..model_step("dense")
    });
    let dense = graph(dense.collect());
    assert_eq!(
        step_keys(&Plan::new(&dense).unwrap().steps, |_| false).len(),
        ids.len()
    );
    let mut reverse = dense;
    reverse.steps.reverse();
    for (step, id) in reverse.steps.iter_mut().zip(ids.iter().rev()) {
        step.id.clone_from(id);
    }
    assert_eq!(
        step_keys(&Plan::new(&reverse).unwrap().steps, |_| false).len(),
        ids.len()
    );

    // Very many steps after a skipped one that waits for very many.
    let hub = MAX_STEPS / 2;
    let before: Vec<String> = (1..=hub).map(|n| n.to_string()).collect();
    let star = (0..MAX_STEPS).map(|at| StepDraft {
        depends_on: match at.cmp(&hub) {
            Ordering::Less => Vec::new(),
            Ordering::Equal => before.clone(),
            Ordering::Greater => vec![(hub + 1).to_string()],
        },
        ..model_step("star")
    });
    let star = Plan::new(&graph(star.collect())).unwrap();
    assert_eq!(
        step_keys(&star.steps, |at| at.index() == hub).len(),
        MAX_STEPS
    );
    let all_skipped = step_keys(&plan.steps, |_| true);
    assert_eq!(all_skipped.len(), MAX_STEPS);
}

#[test]
fn arguments_are_kept_in_canonical_form() {
    let mut step = tool_step("t", "look");
    step.tool.as_mut().unwrap().arguments = " {\"b\": 1,\n \"a\": \"x\\\"y\"} ".to_owned();
    let plan = Plan::new(&chain(vec![step])).unwrap();
    let arguments = &plan.steps[0].tool.as_ref().unwrap().arguments;
    assert_eq!(arguments, r#"{"a":"x\"y","b":1}"#);
}

#[test]
fn canonical_json_sorts_keys_at_every_depth() {
    let value = json!({"b": [{"z": 1, "a": 2}], "a": {"d": 1.5, "c": "ü\n"}});
    let expected = r#"{"a":{"c":"ü\n","d":1.5},"b":[{"a":2,"z":1}]}"#;
    assert_eq!(to_canonical_json(&value), expected);
}

#[test]
fn canonical_json_keeps_every_digit_of_a_number() {
    for (written, expected) in [
        ("18446744073709551616", "18446744073709551616"),
        ("-1000000000000000000001", "-1000000000000000000001"),
        (
            "0.10000000000000000000000000000001",
            "0.10000000000000000000000000000001",
        ),
        ("1.0", "1.0"),
        ("1.50", "1.50"),
        ("-0", "-0"),
        ("1e+21", "1e+21"),
        ("1e21", "1e+21"),
        ("1.0E400", "1.0e+400"),
        ("5e-324", "5e-324"),
    ] {
        let canonical = |text: &str| to_canonical_json(&serde_json::from_str(text).unwrap());
        assert_eq!(canonical(written), expected);
        assert_eq!(canonical(expected), expected, "it is stable");
    }
}

#[test]
fn a_label_is_one_line_that_says_something() {
    let label = |title: &str, description: &str| {
        let draft = StepDraft {
            title: title.to_owned(),
            description: description.to_owned(),
            ..tool_step("", "look")
        };
        let label = Plan::new(&chain(vec![draft.clone()])).unwrap().steps[0]
            .label()
            .to_owned();
        assert_eq!(draft.label(Place::at(0)), label);
        label
    };
    assert_eq!(label("Survey", "Look at all."), "Survey");
    assert_eq!(label("Survey\n[✓] done", ""), "Survey");
    assert_eq!(label("", "\n\n  Look at all.\nThen write."), "Look at all.");
    assert_eq!(label("", ""), "look");
}
