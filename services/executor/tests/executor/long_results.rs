//! Results that are too long for the model: their texts go to the owner in parts, and the owner says what the
//! model gets. So it does of results with media.

use crate::bench::{Bench, Called, part, result, within};
use crate::owner::{Owner, call_ref, model_step, outputs, owners_result, permit};
use cairn_engine::message::{Media, Message};
use cairn_proto::event::{CallMedia, Effect};
use cairn_proto::executor::{AttemptStart, CallResult, ResultPart, RunStepResponse};
use cairn_proto::tools::ToolResult;
use futures::StreamExt as _;
use futures::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

/// A bench whose model has asked for these calls, in a reply that is not yet acknowledged. A result of more
/// than ten bytes is long.
async fn after_reply(calls: &[(&str, &str)]) -> (Bench, Owner) {
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        result_bytes: 10,
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    bench.asked().await.reply("", calls);
    assert_eq!(owner.report().await.number, 1);
    (bench, owner)
}

/// Offset and text of a part.
fn of_part(message: RunStepResponse) -> (u64, String) {
    assert_eq!(message.number, 0, "it is no report");
    let part: ResultPart = *message.part.expect("a part");
    assert_eq!(part.call, Some(call_ref(0, 0)));
    (part.offset, part.text)
}

fn streams(called: Called, parts: &[&str], last: Result<ToolResult, Status>) {
    let mut messages: Vec<_> = parts.iter().map(|text| part(text)).collect();
    messages.push(last.and_then(result));
    called.streams(stream::iter(messages).boxed());
}

#[tokio::test(start_paused = true)]
async fn the_parts_come_in_order_and_the_owner_says_what_the_model_gets() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    streams(
        bench.called().await,
        &["one ", "two"],
        Ok(ToolResult::default()),
    );
    assert_eq!(of_part(owner.report().await), (0, "one ".to_owned()));
    assert_eq!(of_part(owner.report().await), (4, "two".to_owned()));
    let report = owner.report().await;
    assert_eq!(report.number, 2);
    let ended = &report.results[0];
    assert_eq!((ended.part_bytes, ended.output.as_str()), (7, ""));
    // A permit that was on its way does not make the call again.
    let look = permit(call_ref(0, 0), "look", "{}", Effect::Pure);
    owner.ack_with(2, vec![look], Vec::new());
    bench.is_quiet().await;
    owner.ack_with(2, Vec::new(), vec![owners_result(call_ref(0, 0), "one …")]);
    let asked = bench.asked().await;
    let said = asked.said();
    let told = said.last().expect("a result");
    assert!(
        told.results().any(|result| result.text == "one …"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_in_one_piece_may_be_too_long_as_well() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    bench.called().await.output("0123456789a");
    let report = owner.report().await;
    let ended = &report.results[0];
    assert_eq!(
        (ended.part_bytes, ended.output.as_str()),
        (0, "0123456789a")
    );
    owner.ack(2);
    bench.is_quiet().await;
    owner.ack_with(2, Vec::new(), vec![owners_result(call_ref(0, 0), "0123 …")]);
    bench.asked().await;
}

/// The owner knows the window of the model from its first reply on.
#[tokio::test(start_paused = true)]
async fn what_is_too_long_for_a_small_window_follows_from_the_first_reply() {
    let mut bench = Bench::with_window(2_000).await;
    let start = AttemptStart {
        result_bytes: 32 * 1024,
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    bench.asked().await.reply("", &[("look", "{}")]);
    let report = owner.report().await;
    assert_eq!(report.reply.map(|reply| reply.window_tokens), Some(2_000));
    owner.ack(1);
    let fits = "word ".repeat(400);
    bench.called().await.output(&fits);
    bench.asked().await.reply("", &[("look", "{}")]);
    let report = owner.report().await;
    assert_eq!(outputs(&report), [(0, &*fits)], "it was held for the reply");
    owner.ack(2);
    bench.called().await.output(&format!("{fits}x"));
    let report = owner.report().await;
    assert_eq!((report.number, report.results[0].output.len()), (3, 2_001));
    owner.ack(3);
    bench.is_quiet().await;
    owner.ack_with(3, Vec::new(), vec![owners_result(call_ref(1, 0), "word …")]);
    bench.asked().await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_says_which_media_of_a_result_the_model_gets() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    let media = |mime_type: &str, is_shown| CallMedia {
        mime_type: mime_type.to_owned(),
        data: vec![1, 2, 3],
        is_shown,
        ..CallMedia::default()
    };
    bench.called().await.answer(Ok(ToolResult {
        output: "seen".to_owned(),
        media: vec![media("image/png", false), media("audio/wav", false)],
        ..ToolResult::default()
    }));
    let report = owner.report().await;
    assert_eq!(report.results[0].media.len(), 2, "the journal has both");
    owner.ack(2);
    bench.is_quiet().await;
    let shown = CallResult {
        media: vec![media("image/png", true), media("audio/wav", false)],
        ..owners_result(call_ref(0, 0), "seen\n[left out]")
    };
    owner.ack_with(2, Vec::new(), vec![shown]);
    let picture = Media {
        mime: "image/png".to_owned(),
        data: vec![1, 2, 3],
    };
    let expected = Message::tool("id-0", "seen\n[left out]", false).with_media([picture]);
    assert_eq!(bench.asked().await.said().last(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_fits_goes_to_the_model_at_once() {
    let (mut bench, owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    bench.called().await.output("0123456789");
    bench.asked().await;
}

#[tokio::test(start_paused = true)]
async fn the_tools_service_waits_while_the_owner_does_not_read() {
    const PARTS: usize = 40;
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    let (taken, text) = (Arc::new(AtomicUsize::new(0)), "x".repeat(256 * 1024));
    let (counted, sent) = (taken.clone(), text.clone());
    let parts = stream::iter(0..PARTS).map(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        part(&sent)
    });
    let last = stream::iter([result(ToolResult::default())]);
    bench.called().await.streams(parts.chain(last).boxed());
    let mut offset = 0;
    let first = of_part(owner.report().await);
    assert_eq!((first.0, first.1.len()), (0, text.len()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ahead = taken.load(Ordering::Relaxed);
    assert!(ahead < PARTS / 2, "{ahead} parts are in memory");
    for _ in 1..PARTS {
        offset += text.len() as u64;
        assert_eq!(of_part(owner.report().await).0, offset);
    }
    assert_eq!(owner.report().await.number, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pure_call_that_breaks_off_begins_anew() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    let gone = || Err(Status::unavailable("killed"));
    streams(bench.called().await, &["one"], gone());
    assert_eq!(of_part(owner.report().await), (0, "one".to_owned()));
    streams(bench.called().await, &["two!"], Ok(ToolResult::default()));
    assert_eq!(of_part(owner.report().await), (0, "two!".to_owned()));
    assert_eq!(owner.report().await.results[0].part_bytes, 4);
}

#[tokio::test(start_paused = true)]
async fn an_effectful_call_that_breaks_off_has_no_result() {
    let (mut bench, mut owner) = after_reply(&[("send", "{}")]).await;
    let send = permit(call_ref(0, 0), "send", "{}", Effect::Effectful);
    owner.ack_with(1, vec![send], Vec::new());
    streams(
        bench.called().await,
        &["one"],
        Err(Status::unavailable("killed")),
    );
    assert_eq!(of_part(owner.report().await), (0, "one".to_owned()));
    assert_eq!(owner.error().await.reason_name(), "CALL_LOST");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_ends_the_call_in_the_middle() {
    let (mut bench, mut owner) = after_reply(&[("look", "{}")]).await;
    owner.ack(1);
    let (messages, come) = mpsc::unbounded_channel();
    let stream = UnboundedReceiverStream::new(come);
    bench.called().await.streams(stream.boxed());
    messages.send(part("one")).expect("it is read");
    assert_eq!(of_part(owner.report().await), (0, "one".to_owned()));
    drop(owner);
    within(messages.closed()).await;
}
