//! Long results, and the calls that the owner answers: `read_result` and `report_generator`.

use crate::drain::Draining;
use crate::support::{Attempt, Fault, Kind, World, chain, count, model_step, reply};
use cairn_engine::event::{CallFinished, Event};
use cairn_memory::port::Limits;
use cairn_orchestrator::Config;
use cairn_proto::event::CallMedia;
use cairn_proto::executor::{Acknowledgement, CallResult, Reply, RunStepResponse};
use cairn_rpc::RpcError;
use std::sync::Arc;
use std::time::Duration;

/// A text of so many numbered lines.
pub(crate) fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

/// The results that the owner sends next.
pub(crate) async fn results(world: &World, attempt: &mut Attempt) -> Vec<CallResult> {
    let sent = async {
        loop {
            let Acknowledgement { results, .. } = attempt.ack().await;
            if !results.is_empty() {
                return results;
            }
        }
    };
    world.until(sent).await
}

/// A step whose model has a long result of this text, in two parts.
pub(crate) async fn with_long_result(world: &World, text: &str) -> (String, Attempt, CallResult) {
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let (first, second) = text.split_at(text.len() / 2);
    attempt.long_result(0, 0, &[first, second]);
    let mut results = results(world, &mut attempt).await;
    assert_eq!(results.len(), 1);
    (session, attempt, results.remove(0))
}

/// The model asks to read a piece of its first long result.
pub(crate) fn read(attempt: &mut Attempt, tool_turn: u32, range: &str) {
    let arguments = format!(r#"{{"handle": "result-1"{range}}}"#);
    attempt.reply(reply(tool_turn, "", &[("read_result", &arguments)]));
}

pub(crate) fn finished(events: &[Event]) -> Vec<&CallFinished> {
    let finished = events.iter().filter_map(|event| match &event.kind {
        Kind::CallFinished(finished) => Some(finished),
        _ => None,
    });
    finished.collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_result_is_in_blobs_and_is_read_in_pieces() {
    let world = World::new().await;
    let text = lines(20_000);
    let (session, mut attempt, told) = with_long_result(&world, &text).await;
    assert_eq!(attempt.start.result_bytes, 32 * 1024);
    assert!(told.output.len() <= 32 * 1024);
    assert!(told.output.starts_with("line 1\nline 2\n"));
    assert!(
        told.output.contains("with handle 'result-1-"),
        "{}",
        told.output
    );

    read(&mut attempt, 1, r#", "from_line": 19999"#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(!answer.is_error);
    let expected = ": lines 19999 to 20000 of 20000 lines\n19999\tline 19999\n20000\tline 20000";
    assert!(answer.output.ends_with(expected), "{}", answer.output);
    read(&mut attempt, 2, r#", "search": "line 1234""#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(
        answer.output.contains(": 11 lines of 20000 lines contain"),
        "{}",
        answer.output
    );

    let events = world.journal.events(&session).await;
    let whole = finished(&events)[0].whole.as_ref().expect("a handle");
    assert_eq!((whole.bytes, whole.lines), (text.len() as u64, 20_000));
    assert_eq!((whole.blobs.len(), whole.lost_bytes), (2, 0));
    let sizes: u64 = whole.blobs.iter().map(|blob| u64::from(blob.size)).sum();
    assert_eq!(sizes, text.len() as u64);
}

/// The window of a model is known from its first reply on, and each reply names it. What comes with a reply is
/// older, and the executor judged it by what was known before.
#[tokio::test(start_paused = true)]
async fn what_is_too_long_for_a_small_window_follows_from_each_reply() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.start.result_bytes, 32 * 1024);
    let with_window = |reply: Reply, window_tokens: u64| Reply {
        window_tokens,
        ..reply
    };
    let (short, long) = (lines(220), lines(240));
    assert!(short.len() < 2_000 && long.len() > 2_000);
    let first = reply(0, "", &[("pure", "{}"), ("pure", "{}")]);
    attempt.reply(with_window(first, 2_000));
    attempt.report_result(0, 0, &short);
    attempt.report_result(0, 1, &long);
    let told = results(&world, &mut attempt).await;
    let [told] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(told.call, Some(attempt.call(0, 1)));
    assert!(told.output.len() <= 2_000, "{}", told.output.len());

    attempt.reply(reply(1, "", &[("pure", "{}")]));
    let held = attempt.result(1, 0, &short);
    let second = reply(2, "", &[("pure", "{}")]);
    attempt.reply_with(vec![held], with_window(second, 1_024));
    attempt.report_result(2, 0, &short);
    let told = results(&world, &mut attempt).await.remove(0);
    assert!(told.output.len() <= 1_024, "{}", told.output.len());
    let events = world.journal.events(&session).await;
    let wholes = finished(&events).into_iter().map(|it| it.whole.as_ref());
    let bytes: Vec<_> = wholes.map(|whole| whole.map(|it| it.bytes)).collect();
    let (short, long) = (short.len() as u64, long.len() as u64);
    assert_eq!(bytes, [None, Some(long), None, Some(short)]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_its_tool_cut_says_that_there_was_more() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let result = CallResult {
        output: lines(20_000),
        is_cut: true,
        ..attempt.result(0, 0, "")
    };
    attempt.report(RunStepResponse {
        results: vec![result],
        ..RunStepResponse::default()
    });
    let told = results(&world, &mut attempt).await.remove(0);
    let note = "its tool gave more, which was not kept";
    assert!(told.output.contains(note), "{}", told.output);
    read(&mut attempt, 1, r#", "search": "line 20001""#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.output.contains(note), "{}", answer.output);
    let events = world.journal.events(&session).await;
    let whole = finished(&events)[0].whole.as_ref().expect("a handle");
    assert!(whole.is_cut);
}

#[tokio::test(start_paused = true)]
async fn what_fits_is_no_handle_in_whatever_pieces_it_comes() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    attempt.ack().await;
    attempt.long_result(0, 0, &["one ", "two"]);
    // The executor, which has sent it in parts, gets the text that the model reads.
    let told = results(&world, &mut attempt).await.remove(0);
    assert_eq!(told.output, "one two");
    let events = world.journal.events(&session).await;
    let result = finished(&events)[0];
    assert_eq!((result.output.as_str(), &result.whole), ("one two", &None));
    assert_eq!(world.faults.calls("PutBlob"), 0);
}

#[tokio::test(start_paused = true)]
async fn each_executor_is_sent_the_media_that_the_model_gets() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let media = |mime_type: &str, data: &[u8]| CallMedia {
        mime_type: mime_type.to_owned(),
        data: data.to_vec(),
        ..CallMedia::default()
    };
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10";
    let result = CallResult {
        media: vec![media("image/png", png), media("audio/wav", b"sound")],
        ..attempt.result(0, 0, "seen")
    };
    attempt.report(RunStepResponse {
        results: vec![result],
        ..RunStepResponse::default()
    });
    let told = results(&world, &mut attempt).await.remove(0);
    let shown = CallMedia {
        is_shown: true,
        ..media("image/png", png)
    };
    assert_eq!(told.media, [shown]);
    let line = "seen\n[a file of type audio/wav with 5 bytes was left out";
    assert!(told.output.starts_with(line), "{}", told.output);
    let events = world.journal.events(&session).await;
    assert_eq!(finished(&events)[0].media.len(), 2, "the journal has both");
    attempt.break_with(RpcError::unavailable("the executor stops").into());
    let again = world.attempt().await;
    assert_eq!(again.start.results, [told]);
}

#[tokio::test(start_paused = true)]
async fn a_setting_says_what_is_long() {
    let config = Config {
        result_bytes: 1024,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    // In one piece.
    attempt.report_result(0, 0, &lines(200));
    let told = results(&world, &mut attempt).await.remove(0);
    assert!(told.output.len() <= 1024, "{}", told.output.len());
    read(&mut attempt, 1, "");
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.output.len() <= 1024, "{}", answer.output.len());
    assert!(answer.output.contains("[read on with from_line "));
    let events = world.journal.events(&session).await;
    assert_eq!(
        finished(&events)[0]
            .whole
            .as_ref()
            .expect("a handle")
            .blobs
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn over_the_quota_the_beginning_is_kept_and_the_rest_is_lost() {
    let limits = Limits {
        session_blob_bytes: 200_000,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    let text = lines(25_000);
    let (session, mut attempt, told) = with_long_result(&world, &text).await;
    let events = world.journal.events(&session).await;
    let whole = finished(&events)[0].whole.as_ref().expect("a handle");
    let kept = u64::from(whole.blobs[0].size);
    assert_eq!(whole.lost_bytes, text.len() as u64 - kept);
    assert!(kept > 100_000);
    let note = format!("its last {} bytes were not kept", whole.lost_bytes);
    assert!(told.output.contains(&note), "{}", told.output);
    read(&mut attempt, 1, r#", "from_line": 10000, "to_line": 10001"#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(
        answer.output.ends_with("10001\tline 10001"),
        "{}",
        answer.output
    );
    read(&mut attempt, 2, r#", "from_line": 24000"#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(
        answer.is_error && answer.output.contains("are lost"),
        "{}",
        answer.output
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_loses_nothing() {
    let world = World::new().await;
    world.faults.next("PutBlob", Fault::Refuse, 2);
    world.faults.next("PutBlob", Fault::LoseAnswer, 1);
    world.faults.next("PutBlob", Fault::Hang, 1);
    let (session, ..) = with_long_result(&world, &lines(20_000)).await;
    let events = world.journal.events(&session).await;
    let whole = finished(&events)[0].whole.as_ref().expect("a handle");
    assert_eq!((whole.blobs.len(), whole.lost_bytes), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn parts_that_do_not_fit_together_are_no_result() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    attempt.settled().await;
    attempt.part(0, 0, 0, "one");
    attempt.part(0, 0, 7, "two");
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "CallFinished"), 0);
    assert_eq!(count(&events, "StepFailed"), 1);
}

/// What began is read to its end, also if it takes long, and is recorded once.
#[tokio::test(start_paused = true)]
async fn an_answer_may_take_its_time() {
    let world = World::new().await;
    let (session, mut attempt, _) = with_long_result(&world, &lines(20_000)).await;
    let mut held = world.faults.hold("GetBlob");
    read(&mut attempt, 1, "");
    world.until(held.reached()).await;
    world.pass(Duration::from_secs(3)).await;
    let events = world.journal.events(&session).await;
    assert_eq!(finished(&events).len(), 1, "nothing is recorded before");
    // The commit is repeated, and the answer is recorded once.
    world.faults.next("Commit", Fault::LoseAnswer, 1);
    held.release();
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.output.contains(": lines 1 to "), "{}", answer.output);
    attempt.complete(2);
    let events = world.ended(&session).await;
    let read = finished(&events);
    assert_eq!(
        read.iter().filter(|it| it.output == answer.output).count(),
        1
    );
    assert_eq!(count(&events, "StepCompleted"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_ends_at_its_limit() {
    let world = World::new().await;
    let (_session, mut attempt, _) = with_long_result(&world, &lines(20_000)).await;
    world.faults.always("GetBlob", Some(Fault::Hang));
    read(&mut attempt, 1, "");
    let answer = results(&world, &mut attempt).await.remove(0);
    assert_eq!((answer.is_error, answer.reason.as_str()), (true, "Timeout"));
    assert!(answer.output.contains("within 30 s"), "{}", answer.output);
    world.faults.always("GetBlob", None);
    read(&mut attempt, 2, "");
    assert!(!results(&world, &mut attempt).await[0].is_error);
}

#[tokio::test(start_paused = true)]
async fn several_answers_of_one_reply_come_a_few_at_a_time() {
    let world = World::new().await;
    let (session, mut attempt, _) = with_long_result(&world, &lines(20_000)).await;
    world.faults.always("GetBlob", Some(Fault::Hang));
    let before = world.faults.calls("GetBlob");
    let read = ("read_result", r#"{"handle": "result-1"}"#);
    attempt.reply(reply(1, "", &[read; 10]));
    attempt.settled().await;
    world.settle().await;
    assert_eq!(world.faults.calls("GetBlob") - before, 4);
    world.faults.always("GetBlob", None);
    let mut answers = 0;
    while answers < 10 {
        answers += results(&world, &mut attempt).await.len();
    }
    attempt.complete(2);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepCompleted"), 1);
}

/// The process stops in the middle: the next owner finds the answer, and begins no attempt before.
#[tokio::test(start_paused = true)]
async fn the_next_owner_finds_the_answer_anew() {
    let world = Arc::new(World::new().await);
    let (session, mut attempt, _) = with_long_result(&world, &lines(20_000)).await;
    let mut held = world.faults.hold("GetBlob");
    read(&mut attempt, 1, "");
    world.until(held.reached()).await;
    Draining::of(&world).await.over(&world).await;
    attempt.dropped().await;
    let config = Config {
        owner: "o-2".to_owned(),
        ..Config::default()
    };
    let mut again = world.faults.hold("GetBlob");
    let (_client, _running) = world.another(config).await;
    world.until(again.reached()).await;
    assert!(
        world.other_attempts().await.is_empty(),
        "no slot is taken to wait"
    );
    again.release();
    held.release();
    let mut attempt = world.attempt().await;
    let answer = &attempt.start.results[0];
    assert!(answer.output.contains(": lines 1 to "), "{}", answer.output);
    attempt.complete(2);
    let events = world.ended(&session).await;
    assert_eq!(
        finished(&events).len(),
        3,
        "two results, and the end of the step"
    );
    assert_eq!(count(&events, "StepCompleted"), 1);
}

/// A person cancels the run while the answer is being found.
#[tokio::test(start_paused = true)]
async fn an_answer_ends_with_its_run() {
    let world = World::new().await;
    let (session, mut attempt, _) = with_long_result(&world, &lines(20_000)).await;
    let mut held = world.faults.hold("GetBlob");
    read(&mut attempt, 1, "");
    world.until(held.reached()).await;
    let cancellation = world.cancellation(&session);
    let cancelled = world.client.clone().cancel_run(cancellation).await;
    cancelled.expect("the run is cancelled");
    world.settle().await;
    assert!(
        held.is_dropped(),
        "nothing is read for a run that has ended"
    );
    let events = world.ended(&session).await;
    assert_eq!(finished(&events).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_gets_the_report_of_its_run_so_far() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    let tools = world.until(attempt.tools()).await;
    assert!(tools.iter().any(|it| it == "report_generator"), "{tools:?}");
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    attempt.report_result(0, 0, "found");
    attempt.reply(reply(1, "", &[("report_generator", "{}")]));
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(!answer.is_error, "{}", answer.output);
    for expected in [
        "# Report\n",
        "- Status: running",
        "`pure` `{}` → `found`",
        "`report_generator` `{}`: no result yet",
    ] {
        assert!(answer.output.contains(expected), "{}", answer.output);
    }
    attempt.complete(2);
    let events = world.ended(&session).await;
    assert!(finished(&events)[1].whole.is_none());
    assert_eq!(count(&events, "StepCompleted"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_report_has_a_handle() {
    let config = Config {
        result_bytes: 1024,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}"); 40]));
    for index in 0..40 {
        attempt.report_result(0, index, "found");
    }
    attempt.reply(reply(1, "", &[("report_generator", "{}")]));
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.output.len() <= 1024, "{}", answer.output.len());
    assert!(answer.output.starts_with("# Report\n"), "{}", answer.output);
    assert!(
        answer.output.contains("with handle 'result-1-"),
        "{}",
        answer.output
    );
    read(&mut attempt, 2, r#", "search": "no result yet""#);
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.output.contains(": 1 line of "), "{}", answer.output);
    let events = world.journal.events(&session).await;
    let whole = finished(&events)[40].whole.as_ref().expect("a handle");
    assert_eq!((whole.blobs.len(), whole.lost_bytes), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_the_store_does_not_give_is_a_failure_in_time() {
    let world = World::new().await;
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    world.faults.always("ReadEvents", Some(Fault::Hang));
    attempt.reply(reply(0, "", &[("report_generator", "{}")]));
    let answer = results(&world, &mut attempt).await.remove(0);
    assert_eq!((answer.is_error, answer.reason.as_str()), (true, "Timeout"));
    world.faults.always("ReadEvents", None);
    attempt.reply(reply(1, "", &[("report_generator", "{}")]));
    assert!(!results(&world, &mut attempt).await[0].is_error);
}
