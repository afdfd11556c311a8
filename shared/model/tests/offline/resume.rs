//! An attempt that is continued anywhere continues to the same end.

use crate::driver::{Played, Stage, ask, offered};
use crate::folders::{docs, write};
use cairn_engine::message::{Message, Part, Role};

/// Ends of the parts of an attempt after which it may be broken off: after every message.
fn continued(stage: &Stage, step: &Played) {
    for end in 2..step.messages.len() {
        let prefix = step.messages[..end].to_vec();
        let next = &step.messages[end];
        if next.role == Role::Assistant {
            assert_eq!(ask(&prefix, offered()), *next, "{} at {end}", step.title);
        }
        // Thoughts and remarks in between change nothing.
        let mut prefix = prefix;
        if next.role == Role::Assistant {
            prefix.push(Message::assistant("thinking", vec![]));
            prefix.push(Message::user("Continue with the step."));
            let mut reply = ask(&prefix, offered());
            let parts = reply.parts.iter_mut();
            let calls = parts.filter_map(|part| match part {
                Part::Call(call) => Some(call),
                _ => None,
            });
            for (call, expected) in calls.zip(next.calls()) {
                call.id.clone_from(&expected.id);
            }
            assert_eq!(reply, *next, "{} at {end}", step.title);
            prefix.truncate(end);
        }
        let played = stage.play(&step.title, prefix);
        assert_eq!(played, *step, "{} at {end}", step.title);
    }
}

#[test]
fn every_prefix_leads_to_the_same_end() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    docs(root);
    for number in 0..9 {
        write(
            root,
            &format!("docs/more{number}.md"),
            "# More\n\nRedis and Valkey\n",
        );
    }
    let stage = Stage::new(root);
    for goal in [
        "Compare \"Redis\" and \"Valkey\" under docs",
        "Summarize this project",
        "Run the tests",
    ] {
        let run = stage.run(goal);
        for step in &run.steps {
            continued(&stage, step);
        }
    }
}

#[test]
fn a_step_that_is_asked_again_after_its_end_ends_again() {
    let dir = tempfile::tempdir().unwrap();
    docs(dir.path());
    let run = Stage::new(dir.path()).run("Which files mention Redis?");
    let mut messages = run.steps[0].messages.clone();
    messages.truncate(messages.len() - 1);
    let end = messages.last().unwrap();
    assert!(end.results().next().is_some());
    messages.push(Message::tool("offline_1_1", "a hook refused it", true));
    let again = ask(&messages, offered());
    assert_eq!(again.calls().count(), 1);
    assert_eq!(again.calls().next().unwrap().name, "step");
}
