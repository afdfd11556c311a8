//! The text of a reply while the model writes it.

use crate::bench::{Bench, reply};
use crate::owner::{Owner, attempt, model_step};
use cairn_engine::message::Part;
use cairn_model::ModelError;
use cairn_proto::event::TextDelta;
use std::time::Duration;
use tokio::time::Instant;

/// The next message, which is no report.
async fn delta(owner: &mut Owner) -> TextDelta {
    let message = owner.report().await;
    assert_eq!(
        (message.number, message.reply, message.failure),
        (0, None, None)
    );
    *message.delta.expect("a part of a reply")
}

#[tokio::test(start_paused = true)]
async fn what_a_model_writes_is_passed_on_in_parts_and_then_reported_whole() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    let began = Instant::now();
    // The first part does not wait, the next ones for a while.
    asked.writes("one ");
    let part = delta(&mut owner).await;
    assert_eq!(part.attempt, Some(attempt()));
    assert_eq!((part.tool_turn, part.offset, &*part.text), (0, 0, "one "));
    assert_eq!(began.elapsed(), Duration::ZERO);
    asked.writes("tw");
    asked.writes("o ");
    let part = delta(&mut owner).await;
    assert_eq!((part.offset, &*part.text), (4, "two "));
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    // More than a KiB does not wait.
    let long = "x".repeat(1024);
    asked.writes(&long);
    let part = delta(&mut owner).await;
    assert_eq!((part.offset, part.text), (8, long.clone()));
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    // What is left is in the reply.
    asked.writes("end");
    asked.reply(&format!("one two {long}end"), &[]);
    let report = owner.report().await;
    assert_eq!((report.number, report.delta), (1, None));
    assert_eq!(report.reply.unwrap().text.len(), 8 + 1024 + 3);
    owner.ack(1);
    // The next reply has its own place.
    let asked = bench.asked().await;
    asked.writes("more");
    let part = delta(&mut owner).await;
    assert_eq!((part.tool_turn, part.offset, &*part.text), (1, 0, "more"));
    asked.reply("more", &[]);
    assert_eq!(owner.report().await.number, 2);
    owner.end(2).await;
}

/// An owner that takes nothing does not make the parts of replies pile up here: what finds no room is
/// gathered, and goes when there is room again.
#[tokio::test(start_paused = true)]
async fn parts_that_wait_for_the_owner_are_limited_in_bytes() {
    const REPLY: usize = 1024 * 1024;
    const MOST: usize = 256 * 1024;
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    for _ in 0..REPLY / 4096 {
        asked.writes(&"x".repeat(4096));
    }
    // As long as the owner takes nothing, nothing moves.
    tokio::time::sleep(Duration::from_secs(60)).await;
    asked.reply(&"x".repeat(REPLY), &[]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut parts = 0;
    let report = loop {
        let message = owner.report().await;
        match message.delta {
            Some(delta) => {
                assert_eq!(delta.offset, parts as u64);
                parts += delta.text.len();
            }
            None => break message,
        }
    };
    assert!(
        (MOST / 2..=MOST).contains(&parts),
        "{parts} bytes of parts have waited"
    );
    assert_eq!(report.reply.expect("a reply").text.len(), REPLY);
    // There is room again.
    owner.ack(1);
    let asked = bench.asked().await;
    for _ in 0..REPLY / 4096 {
        asked.writes(&"x".repeat(4096));
    }
    let mut parts = 0;
    while parts < REPLY {
        parts += delta(&mut owner).await.text.len();
    }
    asked.reply(&"x".repeat(REPLY), &[]);
    assert_eq!(owner.report().await.number, 2);
    owner.end(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_broke_begins_anew() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    asked.writes("void");
    assert_eq!(delta(&mut owner).await.text, "void");
    asked.answer(Err(ModelError::Stream {
        message: "cut".to_owned(),
    }));
    let asked = bench.asked().await;
    asked.writes("whole");
    let part = delta(&mut owner).await;
    assert_eq!((part.offset, &*part.text), (0, "whole"));
    asked.answer(Ok(reply("whole", &[])));
    let report = owner.report().await;
    assert_eq!((report.number, &*report.reply.unwrap().text), (1, "whole"));
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_comes_at_once_is_reported_once() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.reply("at once", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, report.delta), (1, None));
    owner.end(1).await;
}

/// The executor reads a reply no faster than it gathers its pieces, also if the whole is there at once.
#[tokio::test(start_paused = true)]
async fn few_pieces_wait_however_fast_a_reply_comes() {
    const PIECES: usize = 20_000;
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let mut fast = reply("", &[]);
    fast.message.parts = vec![Part::Text("x".to_owned()); PIECES];
    bench.asked().await.answer(Ok(fast));
    let mut passed_on = 0;
    let report = loop {
        let message = owner.report().await;
        let Some(delta) = message.delta else {
            break message;
        };
        assert_eq!(delta.offset, passed_on as u64);
        passed_on += delta.text.len();
    };
    let waited = PIECES - passed_on;
    assert!(waited <= 4096, "{waited} pieces waited");
    assert_eq!(report.reply.expect("a reply").text.len(), PIECES);
    owner.end(1).await;
}

/// An owner that takes nothing keeps neither the reply of a model nor the end of an attempt waiting.
#[tokio::test(start_paused = true)]
async fn pieces_wait_for_no_owner() {
    const PIECES: usize = 20_000;
    let piece = "x".repeat(64);
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    for _ in 0..PIECES {
        asked.writes(&piece);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    asked.reply(&piece.repeat(PIECES), &[]);
    let report = loop {
        let message = owner.report().await;
        if message.delta.is_none() {
            break message;
        }
    };
    assert_eq!(report.reply.expect("a reply").text.len(), 64 * PIECES);
    owner.ack(1);
    let asked = bench.asked().await;
    for _ in 0..PIECES {
        asked.writes(&piece);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(owner);
    asked.dropped().await;
}
