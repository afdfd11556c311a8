//! Pause, skip and cancel at every point of a step: before, in and after calls of each effect.

use crate::control::{cancel, doubtful, pause, resume, running, skip};
use crate::world::{World, look, send, tool_call};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::{Event, EventKind, WaitReason};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::session::{RunStatus, StepStatus};
use serde_json::json;

/// A point at which a step may be, made by what happens to step 2 of a running world.
type Point = (&'static str, fn(&mut World));

const POINTS: [Point; 10] = [
    ("before any reply", |_| {}),
    ("before a pure call", |world| {
        drop(world.reply(2, "", &[look()]))
    }),
    ("after a pure call", |world| {
        world.reply(2, "", &[look()]);
        world.result(2, 0, "text");
    }),
    ("in an idempotent call", |world| {
        world.reply(2, "", &[tool_call("put", &json!({"path": "a"}))]);
    }),
    ("in an effectful call", |world| {
        drop(world.reply(2, "", &[send()]))
    }),
    ("in one of two", |world| {
        world.reply(2, "", &[send(), send()]);
        world.result(2, 0, "sent");
    }),
    ("after an effectful call", |world| {
        world.reply(2, "", &[send()]);
        world.result(2, 0, "sent");
    }),
    ("before an effectful call that was not sent", |world| {
        world.starts = false;
        world.reply(2, "", &[send()]);
        world.starts = true;
    }),
    ("in doubt", |world| {
        world.reply(2, "", &[send()]);
        let attempt = world.attempt(2);
        world.decide(Input::AttemptLost { attempt });
    }),
    ("in doubt with an answer to come", |world| {
        world.reply(2, "", &[send()]);
        let attempt = world.attempt(2);
        world.decide(Input::AttemptLost { attempt });
        world.answer("call-1.2.1.0.0", Settlement::Retry);
    }),
];

pub(crate) fn each_point(check: impl Fn(&str, World)) {
    for (name, go_there) in POINTS {
        let mut world = running();
        go_there(&mut world);
        check(name, world);
    }
}

pub(crate) fn is_begun(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event.kind,
            EventKind::StepStarted(_) | EventKind::CallIntended(_)
        )
    })
}

/// What a paused run leaves to be done: only an attempt whose call with side effects may be on its
/// way, so that its result is heard.
#[test]
fn a_paused_run_only_ends_what_has_side_effects_and_was_begun() {
    each_point(|name, mut world| {
        let events = world.command(pause());
        assert!(!is_begun(&events), "{name}");
        assert_eq!(world.run().status, RunStatus::Paused, "{name}");
        let attempt = world.attempt(2);
        let expected = match name {
            "in an effectful call" | "in one of two" => vec![Work::RunStep(attempt)],
            "in doubt with an answer to come" => {
                let at = world.now + crate::world::LEASE + crate::world::TIME_LIMIT;
                vec![Work::Wake { at }]
            }
            _ => vec![],
        };
        assert_eq!(world.outstanding(), expected, "{name}");
    });
}

/// Results that come while the run is paused are taken, and nothing follows from them.
#[test]
fn what_ends_while_paused_is_kept_and_begins_nothing() {
    let mut world = running();
    world.reply(2, "", &[send()]);
    world.command(pause());
    assert!(!is_begun(&world.result(2, 0, "sent")));
    assert_eq!(world.outstanding(), []);
    // The model's answer was under way, too.
    let events = world.reply(2, "", &[send()]);
    assert!(!is_begun(&events), "the call waits for the run");
    assert_eq!(world.outstanding(), []);
    let events = world.command(resume());
    assert!(is_begun(&events), "now it may be sent");
    world.result(2, 0, "sent");
    world.command(pause());
    world.end(2);
    assert_eq!((world.running(), world.outstanding()), (vec![], vec![]));
    assert_eq!(*world.status(3), StepStatus::Pending);
    world.command(resume());
    assert_eq!(world.running(), [3]);
}

#[test]
fn answers_take_effect_while_paused_and_what_they_allow_waits() {
    for settlement in [
        Settlement::Retry,
        Settlement::Skip {
            reason: String::new(),
        },
    ] {
        let mut world = doubtful();
        world.command(pause());
        assert_eq!(pending(&world.session).len(), 1, "the question stays open");
        world.now += 1_000_000;
        let events = world.answer("call-1.2.1.0.0", settlement.clone());
        assert!(!is_begun(&events), "{settlement:?}");
        assert_eq!(world.in_doubt(), 0);
        assert_eq!(world.outstanding(), []);
        let events = world.command(resume());
        let is_sent = settlement == Settlement::Retry;
        assert_eq!(is_begun(&events), is_sent, "{settlement:?}");
        let attempt = world.attempt(2);
        assert_eq!(world.outstanding(), [Work::RunStep(attempt)]);
    }
}

/// Whether a run is paused, the owner changes, and it continues: nothing is lost or done twice.
#[test]
fn a_pause_lasts_over_a_change_of_owner() {
    each_point(|name, mut world| {
        world.command(pause());
        world.session = world.folded();
        let events = world.decide(Input::TakenOver { holder_dead: false });
        assert!(!is_begun(&events), "{name}");
        assert_eq!(world.run().status, RunStatus::Paused, "{name}");
        let intended = ["in an effectful call", "in one of two"];
        let doubts = usize::from(intended.contains(&name) || name.starts_with("in doubt"));
        assert_eq!(world.in_doubt(), doubts, "{name}");
        world.command(resume());
        let status = match doubts {
            0 => RunStatus::Running,
            _ => RunStatus::Waiting(WaitReason::InDoubt),
        };
        assert_eq!(world.run().status, status, "{name}");
    });
}

/// After its end a run leaves nothing to be done, and calls that may be on their way are in doubt.
#[test]
fn a_cancelled_run_calls_no_tool_any_more() {
    each_point(|name, world| {
        for is_paused in [false, true] {
            let mut world = world.clone();
            if is_paused {
                world.command(pause());
            }
            let attempt = world.attempt(2);
            let events = world.command(cancel());
            assert!(!is_begun(&events), "{name}");
            assert_eq!(world.run().status, RunStatus::Cancelled, "{name}");
            assert_eq!(world.outstanding(), [], "{name}");
            assert_eq!((pending(&world.session).len(), world.in_doubt()), (0, 0));
            check_effects(name, &world);
            let late = crate::world::report_reply(attempt, (0, 0), "late", &[send()]);
            assert!(world.decide(late).is_empty(), "{name}");
            world.now += 1_000_000;
            assert!(world.decide(Input::Tick).is_empty(), "{name}");
            assert!(
                world
                    .decide(Input::TakenOver { holder_dead: true })
                    .is_empty()
            );
        }
    });
}

/// A step that is skipped while it runs is closed, and the next begins at once, or with the run.
#[test]
fn a_running_step_is_skipped_at_once() {
    each_point(|name, world| {
        for is_paused in [false, true] {
            let mut world = world.clone();
            if is_paused {
                world.command(pause());
            }
            world.command(skip(2));
            let by_person = matches!(
                world.status(2),
                StepStatus::Skipped {
                    by_person: true,
                    ..
                }
            );
            assert!(by_person, "{name}");
            check_effects(name, &world);
            let running: &[u32] = if is_paused { &[] } else { &[3] };
            assert_eq!(world.running(), running, "{name}");
            world.finish();
            assert_eq!(world.run().status, RunStatus::Completed, "{name}");
        }
    });
}

/// What the calls of step 2 with side effects came to.
pub(crate) fn check_effects(name: &str, world: &World) {
    let expected: &[bool] = match name {
        "in an effectful call" | "in doubt" | "in doubt with an answer to come" => &[false],
        "in one of two" => &[true, false],
        "after an effectful call" => &[true],
        _ => &[],
    };
    let step = world.session.step(world.attempt(2)).unwrap();
    let effects = step.effects.iter().map(|it| it.is_done);
    assert_eq!(effects.collect::<Vec<_>>(), expected, "{name}");
}
