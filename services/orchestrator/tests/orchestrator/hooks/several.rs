//! Several hooks at one point.

use super::{answered, one_step, question};
use crate::support::{
    HOOK, HookQuestion, HookQuestions, Kind, World, definition, reply, with_hook,
};
use cairn_engine::hooks::{AskedCall, Mutation, Payload, Point, Verdict, VerdictKind};
use cairn_hooks::{Definition, Means};
use cairn_orchestrator::Config;
use cairn_proto::orchestrator as pb;

const WRITTEN: &str = r#"{"a":1}"#;
const CHANGED: &str = r#"{"a":2}"#;

/// A service, whose answers are those of the test.
fn service(name: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        means: Means::Host("http://127.0.0.1:1".to_owned()),
        ..definition(&[Point::PreToolCall])
    }
}

/// Runs ask `second`, then [`HOOK`], then `first` and `third` about each call.
async fn world() -> (World, HookQuestions) {
    let (config, questions) = with_hook(&[Point::PreToolCall]);
    let own = definition(&[Point::PreToolCall]);
    let config = Config {
        hooks: vec![service("second"), own, service("first"), service("third")],
        ..config
    };
    (World::with_config(config).await, questions)
}

fn call(question: &HookQuestion) -> &AskedCall {
    match &question.asked.question.payload {
        Payload::Call(call) => call,
        payload => panic!("{payload:?}"),
    }
}

/// The next question, and that it is the only one.
async fn only(world: &World, questions: &mut HookQuestions) -> HookQuestion {
    let asked = question(world, questions).await;
    world.settle().await;
    assert!(questions.try_recv().is_err(), "one hook after the other");
    asked
}

fn change() -> Verdict {
    Verdict::Mutate(Mutation::Arguments(CHANGED.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn hooks_are_asked_in_their_order_until_one_blocks() {
    let (world, mut questions) = world().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", WRITTEN)]));
    let asked = only(&world, &mut questions).await;
    assert_eq!(asked.asked.hook, "second");
    assert_eq!(
        (&*call(&asked).arguments, &call(&asked).asked),
        (WRITTEN, &None)
    );
    let key = asked.asked.key.clone();
    asked.answer(change());
    let asked = only(&world, &mut questions).await;
    assert_eq!(asked.asked.hook, HOOK);
    let written = Some(WRITTEN.to_owned());
    assert_eq!(
        (&*call(&asked).arguments, &call(&asked).asked),
        (CHANGED, &written)
    );
    assert_ne!(asked.asked.key, key, "each hook has a key of its own");
    asked.answer(Verdict::RequireApproval("look first".to_owned()));
    let asked = only(&world, &mut questions).await;
    assert_eq!(asked.asked.hook, "first");
    asked.block("never");
    let is_answered = |kind: &Kind| matches!(kind, Kind::HooksAnswered(_));
    world.seen(&session, is_answered).await;
    assert!(questions.try_recv().is_err(), "a Block ends the questions");
    let answered = answered(&world, &session).await.remove(0);
    let outcome = &answered.outcomes[0];
    let found = (outcome.verdict, &*outcome.hook, &*outcome.text);
    assert_eq!(found, (VerdictKind::Block, "first", "never"));
    let answers = outcome.answers.iter();
    let answers: Vec<_> = answers.map(|it| (&*it.hook, it.verdict)).collect();
    let expected = [
        ("second", VerdictKind::Mutate),
        (HOOK, VerdictKind::RequireApproval),
        ("first", VerdictKind::Block),
    ];
    assert_eq!(answers, expected);
}

/// A later and milder answer takes nothing back, and a person approves what is sent.
#[tokio::test(start_paused = true)]
async fn the_strictest_answer_holds_with_the_changes_of_all() {
    let (world, mut questions) = world().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", WRITTEN)]));
    let asked = only(&world, &mut questions).await;
    asked.answer(Verdict::RequireApproval("look first".to_owned()));
    only(&world, &mut questions).await.answer(change());
    only(&world, &mut questions).await.proceed();
    only(&world, &mut questions).await.proceed();
    let is_asked = |kind: &Kind| matches!(kind, Kind::ApprovalRequested(_));
    world.seen(&session, is_asked).await;
    let request = pb::ListPendingRequest {
        session: session.clone(),
        ..pb::ListPendingRequest::default()
    };
    let answer = world.client.clone().list_pending(request).await;
    let pending = answer.expect("a list").into_inner().pending;
    let [open] = &pending[..] else {
        panic!("{pending:?}");
    };
    assert_eq!(
        (open.hook.as_str(), open.hook_reason.as_str()),
        ("second", "look first")
    );
    assert_eq!(open.arguments_json, CHANGED);
    assert_eq!(open.asked_arguments_json, WRITTEN);
}
