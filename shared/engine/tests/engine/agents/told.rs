//! What the model of an agent is told: its layers, and the instructions of the folder.

use super::{check, create, know, list, reviewer, start, submit, talk, with_reviewer};
use crate::world::{World, chain, look, model_step};
use cairn_engine::agent::{AgentDefinition, SkillOffer};
use cairn_engine::command::{ChangeContext, Command, CompactContext, ContextOp};
use cairn_engine::conversation::{Conversation, LayerKind, Op};
use cairn_engine::decide::{Input, Summarised};
use cairn_engine::message::{Message, Usage};
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_engine::session::Call;
use std::sync::Arc;

const FIRST: &str = "Instructions of this folder, which its owner wrote";
const CHANGED: &str = "The instructions of this folder have changed. They are now:";
const GONE: &str = "The instructions of this folder do not hold any more.";

/// The default agent in a folder with these instructions.
fn instructed(text: &str) -> AgentDefinition {
    AgentDefinition {
        instructions: text.to_owned(),
        ..AgentDefinition::named(DEFAULT_AGENT)
    }
}

/// What the model of the first step that is under way is sent next.
pub(super) fn request(world: &World) -> Vec<Arc<Message>> {
    let name = world.attempt(1);
    let attempt = world.session.attempt(name).unwrap();
    let mut said: Conversation = world.session.conversation(name).unwrap();
    let results = attempt.calls.iter().filter_map(Call::result);
    let results = results.map(Op::Append);
    for op in results.chain(attempt.waiting_ops.iter().cloned()) {
        said.apply(op).unwrap();
    }
    said.messages()
}

/// The same as text, with a line a message.
pub(super) fn lines(world: &World) -> Vec<String> {
    let messages = request(world);
    messages
        .iter()
        .map(|message| format!("{message:?}"))
        .collect()
}

fn count(world: &World, what: &str) -> usize {
    lines(world).join("\n").matches(what).count()
}

#[test]
fn a_prompt_has_the_agent_before_the_context_and_its_capabilities_after_it() {
    let mut world = World::new();
    let agent = AgentDefinition {
        skills: vec![SkillOffer {
            name: "release".to_owned(),
            description: "Cuts a release.".to_owned(),
            digest: "d".to_owned(),
        }],
        ..reviewer()
    };
    know(&mut world, agent);
    world.command(Command::from(cairn_engine::command::CreateContext {
        name: "side".to_owned(),
        prompt: "Be brief.".to_owned(),
        agent: "reviewer".to_owned(),
        ..Default::default()
    }));
    let layers = &world.session.context("side").unwrap().conversation.system;
    let kinds: Vec<LayerKind> = layers.iter().map(|layer| layer.kind).collect();
    assert_eq!(
        kinds,
        [
            LayerKind::Prompt,
            LayerKind::Agent,
            LayerKind::Context,
            LayerKind::Capabilities,
        ]
    );
    assert_eq!(&*layers[1].text, "You review.");
    assert_eq!(&*layers[2].text, "Be brief.");
    for expected in ["`look`, `put`", "`release`: Cuts a release.", "read_skill"] {
        assert!(layers[3].text.contains(expected), "{}", layers[3].text);
    }
    start(&mut world, chain(vec![model_step("one")]), "reviewer");
    let system = lines(&world).remove(0);
    assert!(
        system.contains("You review.") && system.contains("`look`, `put`"),
        "{system}"
    );
    assert!(!system.contains("Be brief."), "{system}");
    check(&world);
}

#[test]
fn an_agent_that_changed_is_told_as_a_reminder() {
    let mut world = with_reviewer();
    super::switch(&mut world, "reviewer");
    talk(&mut world, "first");
    know(
        &mut world,
        AgentDefinition {
            tools: Some(list(&["look", "send"])),
            ..reviewer()
        },
    );
    submit(&mut world, "second");
    let last = lines(&world).pop().unwrap();
    assert!(last.contains("`look`, `send`"), "{last}");
    assert!(!last.contains("You review."), "{last}");
    assert_eq!(count(&world, "operational mode"), 0);
    check(&world);
}

#[test]
fn instructions_come_with_the_first_request_and_again_when_they_change() {
    let mut world = World::new();
    know(&mut world, instructed("Write tests first."));
    submit(&mut world, "first");
    let messages = lines(&world);
    assert!(
        !messages[0].contains("Write tests first."),
        "{}",
        messages[0]
    );
    let last = messages.last().unwrap();
    assert!(last.contains("first") && last.contains(FIRST), "{last}");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    assert_eq!(count(&world, "Write tests first."), 1);
    world.reply(1, "well", &[]);
    submit(&mut world, "second");
    assert_eq!(count(&world, "Write tests first."), 1);
    world.reply(1, "well", &[]);
    know(&mut world, instructed("Write tests last."));
    submit(&mut world, "third");
    assert_eq!(
        (count(&world, CHANGED), count(&world, "Write tests last.")),
        (1, 1)
    );
    world.reply(1, "well", &[]);
    world.agents.0.insert(String::new(), Ok(None));
    submit(&mut world, "fourth");
    assert_eq!(count(&world, GONE), 1);
    assert_eq!(world.run().agent, None);
    world.reply(1, "well", &[]);
    submit(&mut world, "fifth");
    assert_eq!(count(&world, GONE), 1);
    check(&world);
}

#[test]
fn a_step_has_the_instructions_right_after_its_first_message() {
    let mut world = World::new();
    know(&mut world, instructed("Write tests first."));
    start(&mut world, chain(vec![model_step("one")]), "");
    let messages = lines(&world);
    assert!(messages[2].contains(FIRST), "{}", messages[2]);
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    assert_eq!(count(&world, "Write tests first."), 1);
    check(&world);
}

/// A context whose first message has the instructions.
fn instructed_context() -> World {
    let mut world = World::new();
    know(&mut world, instructed("Write tests first."));
    talk(&mut world, "first");
    talk(&mut world, "second");
    world
}

#[test]
fn instructions_come_again_when_a_compaction_took_them_away() {
    let mut world = instructed_context();
    world.command(Command::from(CompactContext {
        keep: 1,
        ..CompactContext::default()
    }));
    let summary = Summarised {
        outcome: Ok("They talked.".to_owned()),
        usage: Usage::default(),
        provider: "test".to_owned(),
        model: "test-model".to_owned(),
        duration_ms: 1,
    };
    world.decide(Input::Report {
        attempt: world.attempt(1),
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full: None,
        summary: Some(Box::new(summary)),
        retry: None,
    });
    submit(&mut world, "third");
    let last = lines(&world).pop().unwrap();
    assert!(last.contains("third") && last.contains(FIRST), "{last}");
    assert_eq!(count(&world, "Write tests first."), 1);
    check(&world);
}

#[test]
fn instructions_come_again_when_a_change_or_a_window_took_them_away() {
    for op in [ContextOp::Clear, ContextOp::SetWindow(Some(2))] {
        let mut world = instructed_context();
        world.command(Command::from(ChangeContext {
            ops: vec![op.clone()],
            ..ChangeContext::default()
        }));
        submit(&mut world, "third");
        assert_eq!(count(&world, FIRST), 1, "{op:?}");
        world.reply(1, "well", &[]);
        submit(&mut world, "fourth");
        assert_eq!(count(&world, FIRST), 1, "{op:?}");
        check(&world);
    }
}

#[test]
fn a_context_without_an_agent_says_nothing_new() {
    let mut world = World::new();
    create(&mut world, "side", "");
    create(&mut world, "other", "default");
    talk(&mut world, "first");
    for name in ["side", "other", "main"] {
        let layers = &world.session.context(name).unwrap().conversation.system;
        let kinds: Vec<LayerKind> = layers.iter().map(|layer| layer.kind).collect();
        assert_eq!(kinds, [LayerKind::Prompt], "{name}");
    }
    assert!(world.session.agents.is_empty());
    check(&world);
}
