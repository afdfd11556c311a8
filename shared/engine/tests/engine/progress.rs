//! The to-do list.

use crate::world::{World, chain, complete, model_step, step_call, tool_call, tool_step};
use cairn_engine::command::{self, Command};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::prompt::progress;
use serde_json::json;

#[test]
fn the_to_do_list_has_a_mark_for_every_status() {
    let mut world = World::with_plan(chain(vec![
        model_step("done"),
        tool_step("skipped", "send"),
        model_step("in progress"),
        model_step("planned"),
    ]));
    world.complete(1, "done");
    world.decide(Input::TakenOver { holder_dead: true });
    world.now += 1_000_000;
    let skip = command::Settlement::Skip {
        reason: String::new(),
    };
    world.answer("call-1.2.1.0.0", skip);
    world.reply(
        3,
        "",
        &[step_call(&json!({"plan": ["A", "B", "C"], "focus": "A"}))],
    );
    world.reply(
        3,
        "",
        &[step_call(&json!({"complete": true, "focus": "B"}))],
    );
    let expected = "\
[✓] done
[-] skipped
[→] in progress
  [✓] A
  [→] B
  [ ] C
[ ] planned";
    assert_eq!(progress::of_run(world.run()), expected);
    world.fail(3, Failure::new(FailureKind::Llm, "Refused", "no"));
    let expected = "\
[✓] done
[-] skipped
[✗] in progress
  [✓] A
  [-] B
  [-] C
[ ] planned";
    assert_eq!(progress::of_run(world.run()), expected);
}

#[test]
fn the_to_do_list_keeps_the_parts_of_steps_that_have_ended() {
    let mut world = World::with_plan(chain(vec![
        model_step("divided"),
        model_step("skipped"),
        model_step("later"),
    ]));
    let parts = step_call(&json!({"plan": ["A", "B"], "focus": "A"}));
    let next = step_call(&json!({"complete": true, "focus": "B"}));
    let last = step_call(&json!({"complete": true}));
    world.reply(1, "", &[parts]);
    world.reply(1, "", &[next]);
    world.reply(1, "", &[last, complete("both parts")]);
    world.reply(2, "", &[step_call(&json!({"plan": ["C"]}))]);
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    let own = step_call(&json!({"plan": ["D"], "focus": "D"}));
    world.reply(3, "", &[own]);
    let expected = "\
[✓] divided
  [✓] A
  [✓] B
[-] skipped
  [-] C
[→] later
  [→] D";
    assert_eq!(progress::of_run(world.run()), expected);
    let progress = world.reply(3, "", &[tool_call("read_progress", &json!({}))]);
    assert_eq!(World::reported(&progress), [(expected.to_owned(), false)]);
    assert_eq!(world.folded(), world.session);
}
