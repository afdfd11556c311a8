//! The executor's replica of the conversation, and the catalogue.

use crate::bench::{Bench, reply};
use crate::owner::{catalogue, conversation, model_step};
use cairn_engine::conversation::{MemoryMark, Op, Reminded, Reminder};
use cairn_engine::message::{FinishReason, Message, Notice, Opaque, Part};
use cairn_proto::event;
use cairn_proto::executor::AttemptStart;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use std::borrow::Borrow;

/// The owner says how it continues, in its acknowledgement.
#[tokio::test(start_paused = true)]
async fn text_alone_ends_nothing() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.reply("I think", &[]);
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!((&*sent.text, sent.ops_through), ("I think", 0));
    owner.changes(1, vec![Op::Append(Message::user("Continue."))]);
    let asked = bench.asked().await;
    let said = [
        Message::assistant("I think", Vec::new()),
        Message::user("Continue."),
    ];
    assert_eq!(asked.said(), said);
    asked.reply("Hm.", &[]);
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!(sent.ops_through, 1);
}

/// Changes take effect at the next request, after the results, whenever they come.
#[tokio::test(start_paused = true)]
async fn changes_follow_the_results_of_the_last_reply() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    // In no words that this version has.
    let memory = Reminder {
        text: "Psst: pool two.".to_owned(),
        of: Reminded::Memory {
            since: None,
            through: MemoryMark::default(),
        },
    };
    // The model is being asked: its request has the layers of before.
    owner.changes(0, vec![Op::Remind(memory)]);
    asked.reply("", &[("look", "{}")]);
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!(sent.ops_through, 0);
    owner.ack(1);
    bench.called().await.output("seen");
    let asked = bench.asked().await;
    assert_eq!(asked.said()[1], Message::tool("id-0", "seen", false));
    let notice = Part::Notice(Notice {
        text: "Psst: pool two.".to_owned(),
        is_of_workspace: false,
    });
    assert_eq!(asked.said()[2].parts, [notice]);
    asked.reply("Hm.", &[]);
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!(sent.ops_through, 1);
}

/// A request takes no copy of what was said, however long the conversation is.
#[tokio::test(start_paused = true)]
async fn requests_share_their_messages() {
    let mut long = conversation();
    for turn in 0..20 {
        let question = Message::user(format!("Question {turn}"));
        let answer = Message::assistant(format!("Answer {turn}"), Vec::new());
        for message in [question, answer] {
            long.apply(Op::Append(message)).expect("a change");
        }
    }
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        conversation: Some(long.into()),
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    let asked = bench.asked().await;
    let first = asked.request.clone();
    asked.reply("", &[("look", "{}")]);
    owner.report().await;
    owner.ack(1);
    bench.called().await.output("seen");
    let second = bench.asked().await;
    // The system prompt is made of its layers for each request.
    let before = places(&first.messages[1..]);
    let after = places(&second.request.messages[1..]);
    assert_eq!(before.len(), 41);
    assert_eq!(before, after[..before.len()]);
}

/// Where the texts of messages are in memory.
fn places<M: Borrow<Message>>(messages: &[M]) -> Vec<*const u8> {
    let places = messages.iter().flat_map(|message| {
        let message: &Message = message.borrow();
        message.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_ptr()),
            _ => None,
        })
    });
    places.collect()
}

/// What only the provider can read is reported, and comes back in its place.
#[tokio::test(start_paused = true)]
async fn thoughts_stay_where_the_model_had_them() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let mut answer = reply("I look.", &[("look", "{}")]);
    let thought = Opaque {
        provider: "test".to_owned(),
        model: "played".to_owned(),
        kind: "thinking".to_owned(),
        json: r#"{"type":"thinking","signature":"c2ln"}"#.to_owned(),
    };
    answer
        .message
        .parts
        .insert(0, Part::Opaque(thought.clone()));
    answer.message.parts.push(Part::Opaque(thought));
    answer.finish = FinishReason::ToolCalls;
    let said = answer.message.clone();
    bench.asked().await.answer(Ok(answer));
    let sent = owner.report().await.reply.expect("a reply");
    let places = sent.opaque.iter().map(|it| (it.calls, it.text_bytes));
    assert_eq!(places.collect::<Vec<_>>(), [(0, 0), (1, 7)]);
    assert_eq!(sent.finish(), event::FinishReason::ToolCalls);
    assert_eq!(sent.provider, "test");
    owner.ack(1);
    bench.called().await.output("seen");
    assert_eq!(bench.asked().await.said()[0], said);
}

/// A step whose catalogue the executor lacks.
fn of_another_catalogue() -> AttemptStart {
    AttemptStart {
        catalogue: "another".to_owned(),
        ..model_step()
    }
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_is_asked_for_once() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(of_another_catalogue()).await;
    let mut listed = catalogue();
    listed.tools.truncate(1);
    owner.lacks(listed).await;
    assert_eq!(bench.asked().await.request.tools.len(), 1);
    for (start, tools) in [(of_another_catalogue(), 1), (model_step(), 5)] {
        let owner = bench.start(start).await;
        assert_eq!(bench.asked().await.request.tools.len(), tools);
        drop(owner);
    }
}

/// The owner sends changes of the conversation whenever they are durable.
#[tokio::test(start_paused = true)]
async fn changes_that_come_before_the_catalogue_are_in_the_first_request() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(of_another_catalogue()).await;
    assert!(owner.report().await.lacks_catalogue);
    let messages = [Message::user("Look in spring."), Message::user("Be brief.")];
    for message in messages.clone() {
        owner.changes(0, vec![Op::Append(message)]);
    }
    owner.send(ToExecutor::Catalogue(catalogue()));
    let asked = bench.asked().await;
    assert_eq!(asked.said(), messages);
    asked.reply("Hm.", &[]);
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!(sent.ops_through, 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_may_end_before_its_catalogue_comes() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(of_another_catalogue()).await;
    assert!(owner.report().await.lacks_catalogue);
    owner.end(0).await;
    bench.is_quiet().await;
}
