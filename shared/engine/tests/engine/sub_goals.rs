//! Sub-goals: planned, planned again, focused, completed and dropped, with every complaint.

use crate::state_tools::{complaint, ok, world};
use crate::world::{World, kinds, step_call};
use cairn_engine::limits::MAX_SUB_GOALS;
use serde_json::{Value, json};

#[test]
fn sub_goals_are_added_focused_and_completed() {
    let mut world = world();
    assert_eq!(
        ok(&mut world, "step", &json!({"plan": ["A", "B"]})),
        "sub-goals added: 2"
    );
    assert_eq!(
        ok(&mut world, "step", &json!({"focus": "A"})),
        "in focus: A"
    );
    let both = json!({"complete": true, "summary": "A is good", "focus": "B"});
    assert_eq!(
        ok(&mut world, "step", &both),
        "sub-goal completed; in focus: B"
    );
    let progress = ok(&mut world, "read_progress", &json!({}));
    assert_eq!(progress, "[→] one\n  [✓] A\n  [→] B\n[ ] two");
    let more = json!({"plan": ["C"], "focus": "C", "complete": true});
    let reported = ok(&mut world, "step", &more);
    assert_eq!(
        reported,
        "sub-goals added: 1; sub-goal completed; in focus: C"
    );
    let attempt = world.session.attempt(world.attempt(1)).unwrap();
    let summaries: Vec<_> = attempt
        .sub_goals
        .iter()
        .map(|goal| goal.summary.as_deref())
        .collect();
    assert_eq!(summaries, [Some("A is good"), Some(""), None]);
}

#[test]
fn complaints_of_step_change_nothing() {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    ok(&mut world, "step", &json!({"plan": ["A"]}));
    let none = "nothing asked: give plan, drop, focus or complete";
    let no_such =
        |text: &str| format!("there is no open sub-goal '{text}'; read_progress lists them");
    let open = |names: &str| {
        format!(
            "nothing of this call was done, because sub-goals are open: {names}; drop each, or focus it in \
             one call and complete it in the next, and plan none in the call that completes the step"
        )
    };
    let no_focus = "no sub-goal is in focus, and in one call, complete comes before focus: send {\"focus\":\"A\"} \
                    first, then complete in another call; to end the step, leave focus out";
    let cases = [
        (json!({}), none.to_owned()),
        (json!({"complete": false}), none.to_owned()),
        (json!({"plan": []}), none.to_owned()),
        (json!({"drop": []}), none.to_owned()),
        (json!({"drop": ["A", "Z"]}), no_such("Z")),
        (
            json!({"plan": ["A"], "drop": ["A"]}),
            "'A' is in plan and in drop: give it in one of them".to_owned(),
        ),
        (json!({"drop": ["A"], "focus": "A"}), no_such("A")),
        (
            json!({"plan": ["B\u{2028}C"]}),
            "a sub-goal is one line of text".to_owned(),
        ),
        (
            json!({"plan": ["B", " "]}),
            "a sub-goal must not be empty".to_owned(),
        ),
        (
            json!({"plan": ["B\n[✓] C"]}),
            "a sub-goal is one line of text".to_owned(),
        ),
        (json!({"focus": "Z"}), no_such("Z")),
        (json!({"plan": ["B"], "focus": "Z"}), no_such("Z")),
        (json!({"complete": true, "summary": "s"}), open("A")),
        (
            json!({"complete": true, "summary": "s", "plan": ["B"]}),
            open("A, B"),
        ),
        (
            json!({"complete": true, "summary": "s", "focus": "A"}),
            no_focus.to_owned(),
        ),
    ];
    for (arguments, expected) in cases {
        check_complaint(&mut world, &arguments, &expected);
    }
}

/// The call is refused, and no sub-goal has changed.
fn check_complaint(world: &mut World, arguments: &Value, expected: &str) {
    let attempt = world.attempt(1);
    let before = world.session.attempt(attempt).unwrap().sub_goals.clone();
    assert_eq!(complaint(world, "step", arguments), expected, "{arguments}");
    let after = &world.session.attempt(attempt).unwrap().sub_goals;
    assert_eq!(*after, before, "{arguments}");
}

#[test]
fn a_sub_goal_that_is_completed_is_gone_and_then_the_step_needs_a_summary() {
    let mut world = world();
    let no_such = "sub-goal 'A' is completed; to do it again, plan it in other words";
    let is_ending = "there is no open sub-goal 'A'; read_progress lists them";
    ok(&mut world, "step", &json!({"plan": ["A"], "focus": "A"}));
    let again = json!({"complete": true, "focus": "A"});
    assert_eq!(complaint(&mut world, "step", &again), is_ending);
    ok(&mut world, "step", &json!({"complete": true}));
    let expected = "complete needs a summary: later steps see only that and your scratchpad notes";
    for arguments in [
        json!({"complete": true}),
        json!({"complete": true, "summary": " \n"}),
    ] {
        assert_eq!(complaint(&mut world, "step", &arguments), expected);
    }
    assert_eq!(
        complaint(&mut world, "step", &json!({"focus": "A"})),
        no_such
    );
}

/// Models give the whole list again when they add to it.
#[test]
fn a_plan_that_is_given_again_adds_only_what_is_new() {
    let mut world = world();
    let reported = ok(
        &mut world,
        "step",
        &json!({"plan": ["A", "B", "A"], "focus": "A"}),
    );
    assert_eq!(
        reported,
        "sub-goals added: 2; there already: 1; in focus: A"
    );
    ok(&mut world, "step", &json!({"complete": true}));
    let again = json!({"plan": ["A", "B"]});
    let reported = ok(&mut world, "step", &again);
    assert_eq!(reported, "sub-goals added: 0; there already: 2");
    let more = json!({"plan": ["A", "B", "C"], "focus": "C"});
    let reported = ok(&mut world, "step", &more);
    assert_eq!(
        reported,
        "sub-goals added: 1; there already: 2; in focus: C"
    );
    let progress = ok(&mut world, "read_progress", &json!({}));
    assert_eq!(progress, "[→] one\n  [✓] A\n  [ ] B\n  [→] C\n[ ] two");
}

#[test]
fn a_sub_goal_that_was_dropped_is_not_open_and_can_be_planned_again() {
    let mut world = world();
    let plan = json!({"plan": ["A", "B", "C"], "focus": "A"});
    ok(&mut world, "step", &plan);
    // One that is being completed is not dropped.
    let both = json!({"complete": true, "drop": ["A"]});
    let no_such = "there is no open sub-goal 'A'; read_progress lists them";
    assert_eq!(complaint(&mut world, "step", &both), no_such);
    let drop = json!({"drop": ["A", "C", "A"], "plan": ["D"], "focus": "D"});
    let reported = ok(&mut world, "step", &drop);
    assert_eq!(
        reported,
        "dropped: A; dropped: C; sub-goals added: 1; in focus: D"
    );
    let progress = ok(&mut world, "read_progress", &json!({}));
    let expected = "[→] one\n  [-] A\n  [ ] B\n  [-] C\n  [→] D\n[ ] two";
    assert_eq!(progress, expected);
    let reported = ok(&mut world, "step", &json!({"plan": ["C"], "drop": ["D"]}));
    assert_eq!(reported, "dropped: D; sub-goals added: 1");
    let attempt = world.session.attempt(world.attempt(1)).unwrap();
    assert_eq!(attempt.focus, None);
    // What is left may be dropped with the call that ends the step.
    let end = json!({"drop": ["B", "C"], "complete": true, "summary": "enough"});
    let events = world.reply(1, "", &[step_call(&end)]);
    assert_eq!(
        kinds(&events)[..5],
        [
            "ReplyReceived",
            "SubGoalDropped",
            "SubGoalDropped",
            "CallFinished",
            "StepCompleted"
        ]
    );
    assert_eq!(world.folded(), world.session);
}

#[test]
fn sub_goals_are_limited() {
    let mut world = world();
    let many: Vec<String> = (0..MAX_SUB_GOALS).map(|n| n.to_string()).collect();
    ok(&mut world, "step", &json!({ "plan": many }));
    let expected = format!("a step has at most {MAX_SUB_GOALS} sub-goals");
    assert_eq!(
        complaint(&mut world, "step", &json!({"plan": ["more"]})),
        expected
    );
}
