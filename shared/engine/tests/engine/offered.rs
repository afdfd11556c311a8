//! The list that the start of an attempt offered is the list that its calls are decided by.

use crate::world::{World, chain, model_step, send, tool_call};
use cairn_engine::decide::{Away, ToolFacts, ToolList};
use cairn_engine::event::Effect;
use cairn_engine::session::CallStatus;
use serde_json::json;
use std::sync::Arc;

fn world() -> World {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let attempt = world.attempt(1);
    let offered: ToolList = world.tools.clone();
    world.offered.insert(attempt, Arc::new(offered));
    world
}

fn status(world: &World) -> CallStatus {
    let call = world.call(1, 0);
    world.session.call(call).unwrap().status.clone()
}

/// What a tool does may be declared otherwise while an attempt runs: its calls are decided by what the
/// model and the executor know.
#[test]
fn a_tool_that_changes_keeps_its_effect_in_attempts_under_way() {
    let mut world = world();
    let harmless = ToolFacts {
        effect: Effect::Pure,
        ..world.tools["send"].clone()
    };
    world.tools.insert("send".to_owned(), harmless);
    world.reply(1, "", &[send()]);
    assert!(matches!(status(&world), CallStatus::Intended { .. }));
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(call.effect, Effect::Effectful);
}

#[test]
fn a_tool_that_came_later_is_not_offered_to_attempts_under_way() {
    let mut world = world();
    let late = world.tools["look"].clone();
    world.tools.insert("late".to_owned(), late);
    world.reply(1, "", &[tool_call("late", &json!({}))]);
    let CallStatus::Finished { output, reason, .. } = status(&world) else {
        panic!("{:?}", status(&world));
    };
    assert_eq!(reason, "NotFound");
    let (_, offered) = output.split_once("; there are: ").unwrap();
    assert!(!offered.contains("late"), "{output}");
}

#[test]
fn a_revoked_tool_is_taken_out_at_once() {
    let mut world = world();
    world.tools.remove("send");
    world.reply(1, "", &[send()]);
    let CallStatus::Finished { reason, output, .. } = status(&world) else {
        panic!("{:?}", status(&world));
    };
    assert_eq!(reason, "NotFound");
    assert!(!output.contains("send,"), "{output}");
}

/// A model that had the tool in an earlier turn is not to learn that there is none.
#[test]
fn a_tool_whose_server_cannot_be_reached_is_never_said_not_to_be_there() {
    let mut world = world();
    world.away = vec![Away {
        prefix: "slow__".to_owned(),
        why: "server 'slow' is being started".to_owned(),
    }];
    let calls = ["slow__look", "slower__look", "slow"].map(|name| tool_call(name, &json!({})));
    world.reply(1, "", &calls);
    let ends = [0, 1, 2].map(|at| {
        let call = world.session.call(world.call(1, at)).unwrap();
        match &call.status {
            CallStatus::Finished { output, reason, .. } => (reason.clone(), output.clone()),
            other => panic!("{other:?}"),
        }
    });
    let reasons = ends.each_ref().map(|(reason, _)| reason.as_str());
    assert_eq!(reasons, ["TOOLS_UNREACHABLE", "NotFound", "NotFound"]);
    assert!(
        ends[0].1.contains("'slow' is being started"),
        "{}",
        ends[0].1
    );
}
