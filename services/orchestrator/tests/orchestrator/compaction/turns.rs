//! Before a request of a turn that is too long.

use super::{
    begin, begin_full, begin_summary, extend, listed, looked_up, news, notices, says, task,
    text_of, texts, user, version, watch,
};
use crate::support::{World, count, names};
use crate::turns::{rest, session};
use cairn_proto::event::CompactionKind;
use cairn_proto::orchestrator as pb;
use pb::context_notice::Notice;
use pb::turn_event::Event;

fn compactions(events: &[Event]) -> Vec<&pb::TurnCompacted> {
    let compacted = events.iter().filter_map(|event| match event {
        Event::Compacted(compacted) => Some(compacted),
        _ => None,
    });
    compacted.collect()
}

fn complete(events: &[Event]) -> &pb::TurnComplete {
    match events.last() {
        Some(Event::Complete(complete)) => complete,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_takes_the_place_of_older_messages() {
    let world = World::new().await;
    let session = session(&world).await;
    let before = (0..8).flat_map(looked_up).collect();
    let seq = extend(&world, &session, before).await;
    let mut watched = watch(&world, &session, seq).await;
    let (mut stream, attempt) = begin_full(&world, &session).await;
    assert_eq!(attempt.start.compact_at_permille, 700);
    assert_eq!(attempt.start.estimate_permille, 1_000);
    let mut again = world.attempt().await;
    world.until(attempt.dropped()).await;
    assert_eq!(again.start.summary, None);
    let said = again.conversation().clone();
    let [view] = &said.compressed[..] else {
        panic!("{:?}", said.compressed);
    };
    assert_eq!(view.compaction(), CompactionKind::History);
    let text = text_of(view.message.as_ref());
    for part in ["Question 0?", "→ pure", "Answer 0."] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(texts(&said.behind), ["hello"]);
    assert!(news(&again).contains("shorter text"), "{}", news(&again));
    says(&mut again, "Good day.");

    let gone = 32 - said.incremental.len() as u32;
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let [compacted] = compactions(&events)[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (compacted.kind(), compacted.replaced),
        (CompactionKind::History, gone)
    );
    assert!(
        compacted.tokens_after < compacted.tokens_before,
        "{compacted:?}"
    );
    assert_eq!(complete(&events).response, "Good day.");

    let noticed = notices(&world, &mut watched).await;
    let [Notice::Compacted(notice)] = &noticed[..] else {
        panic!("{noticed:?}");
    };
    assert_eq!(
        (notice.through_index, notice.kind()),
        (gone, CompactionKind::History)
    );
    assert_eq!(text_of(notice.message.as_ref()), text);
    assert_eq!(notices(&world, &mut watched).await.len(), 2, "the turn");
    let listed = listed(&world, &session).await;
    assert_eq!(listed[0].compaction(), CompactionKind::History);
    assert!(
        listed[1..]
            .iter()
            .all(|it| it.compaction() == CompactionKind::Unspecified)
    );
    assert_eq!(listed.len(), 1 + said.incremental.len() + 2);
}

#[tokio::test(start_paused = true)]
async fn a_summary_takes_their_place_and_no_message_to_the_turn_is_lost() {
    let world = World::new().await;
    let session = session(&world).await;
    let (mut stream, mut writing) = begin_summary(&world, &session).await;
    let asked = task(&writing);
    let messages = asked.messages.expect("messages");
    assert!(
        !messages.behind_mark && messages.through > 0,
        "{messages:?}"
    );
    assert!(asked.max_output_tokens > 0 && asked.prompt.contains("summary"));
    assert_eq!(writing.conversation().incremental.len(), 40);
    let say = pb::SendMessageRequest {
        session: session.clone(),
        request_id: world.request_id(),
        step: 0,
        message: Some(user("in German")),
    };
    let mut client = world.client.clone();
    let sent = world.until(client.send_message(say)).await;
    sent.expect("it is sent");
    let before = version(&world, &session).await;
    writing.summarise("FACT 17: it rains.");
    let mut again = world.attempt().await;
    world.until(writing.dropped()).await;
    assert_eq!(again.start.summary, None);
    let [summary] = &again.conversation().compressed[..] else {
        panic!("{:?}", again.conversation().compressed);
    };
    assert_eq!(summary.compaction(), CompactionKind::Summary);
    let text = text_of(summary.message.as_ref());
    assert!(text.contains("FACT 17: it rains."), "{text}");
    assert!(news(&again).contains("in German"), "{}", news(&again));
    assert_eq!(version(&world, &session).await, before + 1);
    says(&mut again, "Guten Tag.");

    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let [compacted] = compactions(&events)[..] else {
        panic!("{events:?}");
    };
    assert_eq!(compacted.kind(), CompactionKind::Summary);
    let complete = complete(&events);
    assert_eq!(complete.response, "Guten Tag.");
    let usage = complete.usage.expect("the usage");
    assert_eq!((usage.input_tokens, usage.model_calls), (45, 2));
    assert_eq!(world.run(&session).await.usage, complete.usage);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "SummaryAsked"), 1, "{:?}", names(&events));
}

/// Nothing can go, and the request fits: the executor gets its acknowledgement, and asks.
#[tokio::test(start_paused = true)]
async fn a_request_that_fits_is_made_if_nothing_can_go() {
    let world = World::new().await;
    let session = session(&world).await;
    let (mut stream, mut attempt) = begin(&world, &session).await;
    attempt.report_full(800, 1_000);
    assert!(!world.until(attempt.settled()).await);
    says(&mut attempt, "Good day.");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    assert_eq!(complete(&events).response, "Good day.");
    assert!(world.other_attempts().await.is_empty());
    let events = world.journal.events(&session).await;
    let kinds = ["ContextCompacted", "SummaryAsked", "ContextFull"];
    assert!(
        kinds.iter().all(|kind| count(&events, kind) == 0),
        "{:?}",
        names(&events)
    );
}

/// A turn that does not complete leaves its context as the compaction has made it.
#[tokio::test(start_paused = true)]
async fn a_paid_summary_stays_when_the_turn_is_cancelled() {
    let world = World::new().await;
    let session = session(&world).await;
    let (_stream, mut writing) = begin_summary(&world, &session).await;
    writing.summarise("FACT 17: it rains.");
    let again = world.attempt().await;
    let mut client = world.client.clone();
    let cancelled = client.cancel_run(world.cancellation(&session));
    world.until(cancelled).await.expect("it is cancelled");
    world.until(again.dropped()).await;
    let listed = listed(&world, &session).await;
    assert!(listed.len() < 40, "{}", listed.len());
    assert_eq!(listed[0].compaction(), CompactionKind::Summary);
    let usage = world.run(&session).await.usage.expect("the usage");
    assert_eq!(usage.input_tokens, 40);
    // The next turn is told of it.
    let (_stream, next) = begin(&world, &session).await;
    assert!(news(&next).contains("shorter text"), "{}", news(&next));
}
