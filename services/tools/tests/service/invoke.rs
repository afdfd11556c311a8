//! One call, one result, whatever the tool does.

use crate::support::{Custom, NOW, World, counting, request, with_tools};
use cairn_engine::rules::{Condition, Scope};
use cairn_tools::{BoxError, Call, Effect, Output, Request, StoreTime, Tool, ToolError, ToolSpec};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::{Barrier, Notify};

#[tokio::test]
async fn a_panic_is_a_result_and_the_next_call_works() {
    let world = with_tools(vec![
        Custom::tool("panics", Effect::Pure, |_| async {
            panic!("secret in a panic")
        }),
        Custom::tool("panics-late", Effect::Effectful, |_| async {
            tokio::task::yield_now().await;
            panic!("secret in a panic")
        }),
    ]);
    for name in ["panics", "panics-late"] {
        for _ in 0..3 {
            let error = world.error(name, json!({})).await;
            assert_eq!(error.reason(), "ExecutionFailed");
            assert!(
                error.message().contains(&format!("tool '{name}' crashed")),
                "{error}"
            );
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}

#[tokio::test]
async fn output_is_cut_at_a_character() {
    let long = Custom::with(
        "long",
        Effect::Pure,
        Duration::from_secs(20),
        300,
        |_| async { Ok(Output::text("ä€🦀".repeat(100))) },
    );
    let world = with_tools(vec![long]);
    let text = world.text("long", json!({})).await;
    assert!(text.len() <= 300);
    let (kept, notice) = text.split_once('\n').unwrap();
    assert!("ä€🦀".repeat(100).starts_with(kept));
    assert!(kept.len() > 240);
    assert_eq!(notice, "[cut: the result is longer than 300 bytes]");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_stopped() {
    let forever = |name, effect| {
        Custom::with(name, effect, Duration::from_secs(5), 1000, |_| {
            std::future::pending()
        })
    };
    let late_answer = Custom::with(
        "late",
        Effect::Effectful,
        Duration::from_secs(5),
        1000,
        |call| async move {
            call.stop.cancelled().await;
            Ok(Output::text("it was done already"))
        },
    );
    let late_error = Custom::with(
        "broken",
        Effect::Effectful,
        Duration::from_secs(5),
        1000,
        |call| async move {
            call.stop.cancelled().await;
            Err(ToolError::ExecutionFailed("stopped".to_owned()))
        },
    );
    let world = with_tools(vec![
        forever("pure", Effect::Pure),
        forever("effect", Effect::Effectful),
        forever("idempotent", Effect::Idempotent),
        late_answer,
        late_error,
    ]);
    let error = world.error("pure", json!({})).await;
    assert_eq!(
        error,
        ToolError::Timeout(
            "tool 'pure' took longer than its limit of 5000 ms and was stopped".to_owned()
        )
    );
    // It says that it has ended: it does nothing more.
    let error = world.error("broken", json!({})).await;
    assert_eq!(error.reason(), "Timeout");
    assert!(
        error
            .message()
            .ends_with("what it had done by then stays done"),
        "{error}"
    );
    // These do not, and may still act: that is for a person to look at, or for a repeat that does no harm.
    for name in ["effect", "idempotent"] {
        let error = world.error(name, json!({})).await;
        assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
        assert!(error.message().contains("limit of 5000 ms"), "{error}");
    }
    assert_eq!(world.text("late", json!({})).await, "it was done already");
}

#[tokio::test]
async fn calls_run_in_parallel_and_answer_in_order() {
    // None of them ends before all have begun.
    let barrier = Arc::new(Barrier::new(20));
    let meeting = Custom::tool("meeting", Effect::Idempotent, move |call| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(Output::text(call.arguments["n"].to_string()))
        }
    });
    let world = with_tools(vec![meeting]);
    let calls: Vec<Request> = (0..20)
        .map(|n| request("meeting", &json!({"n": n}).to_string()))
        .collect();
    let outcomes = world.tools.invoker().invoke_all(calls).await;
    let texts: Vec<String> = outcomes
        .into_iter()
        .map(|outcome| outcome.result.unwrap().text)
        .collect();
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn every_call_has_one_result_whatever_is_wrong_with_it() {
    let world = with_tools(vec![
        Custom::tool("panics", Effect::Pure, |_| async { panic!("on purpose") }),
        Custom::tool("effect", Effect::Effectful, |_| async {
            Ok(Output::text("done"))
        }),
    ]);
    let late = Request {
        not_after: Some(NOW - 1),
        ..request("effect", "{}")
    };
    let calls = vec![
        request("nobody", "{}"),
        request("panics", ""),
        request("effect", "{"),
        late,
        request("effect", "{}"),
        request("read_file", "{}"),
    ];
    let outcomes = world.tools.invoker().invoke_all(calls).await;
    let reasons: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match &outcome.result {
            Ok(output) => output.text.as_str(),
            Err(error) => error.reason(),
        })
        .collect();
    assert_eq!(
        reasons,
        [
            "NotFound",
            "ExecutionFailed",
            "InvalidArguments",
            "NotSent",
            "done",
            "InvalidArguments"
        ]
    );
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_their_turn() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (running.clone(), most.clone());
    let busy = Custom::tool("busy", Effect::Pure, move |_| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Output::default())
        }
    });
    let world = World::with(|config, deps| {
        config.limits.parallel_calls = 3;
        deps.tools = vec![busy];
    });
    let calls = (0..30).map(|_| request("busy", "")).collect();
    assert!(
        world
            .tools
            .invoker()
            .invoke_all(calls)
            .await
            .iter()
            .all(|o| o.result.is_ok())
    );
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// One source that hangs must not hold up the calls of the others.
#[tokio::test]
async fn each_source_has_a_share_of_its_own() {
    let begun = Arc::new(Notify::new());
    let (entered, end) = (begun.clone(), Arc::new(Notify::new()));
    let ended = end.clone();
    let hangs = Custom::of_source("server", "hangs", Effect::Pure, move |_| {
        let (entered, end) = (entered.clone(), end.clone());
        async move {
            entered.notify_one();
            end.notified().await;
            Ok(Output::text("ended"))
        }
    });
    let world = World::with(|config, deps| {
        config.limits.parallel_calls = 1;
        deps.tools = vec![hangs];
    });
    let invoker = world.tools.invoker().clone();
    let hanging = tokio::spawn(async move { invoker.invoke(request("hangs", "{}")).await });
    begun.notified().await;
    let listed = world.call("list_files", json!({}));
    let listed = tokio::time::timeout(Duration::from_secs(20), listed).await;
    assert!(listed.is_ok(), "a file tool waits for another source");
    ended.notify_one();
    assert_eq!(hanging.await.unwrap().result.unwrap().text, "ended");
}

/// A tool whose look at its values is held up, as by a disk that stalls.
struct Stalls {
    spec: ToolSpec,
    looks: mpsc::Sender<()>,
    /// When the look may end.
    goes_on: Mutex<mpsc::Receiver<()>>,
    was_held_up: AtomicBool,
}

#[async_trait::async_trait]
impl Tool for Stalls {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn links(&self, _: &Scope) -> Vec<Condition> {
        self.looks.send(()).unwrap();
        let goes_on = self.goes_on.lock().unwrap();
        // The end of a test that would never end otherwise.
        let in_time = goes_on.recv_timeout(Duration::from_secs(5)).is_ok();
        self.was_held_up.store(!in_time, Ordering::SeqCst);
        Vec::new()
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        Ok(Output::text("ran"))
    }
}

/// This runtime has one worker, which has to do other things while a call looks at links.
#[tokio::test]
async fn a_look_at_values_holds_up_no_other_call() {
    let (looks, has_looked) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let stalls = Arc::new(Stalls {
        spec: ToolSpec {
            effect: Effect::Pure,
            ..ToolSpec::new("stalls", "test", json!({"type": "object"}))
        },
        looks,
        goes_on: Mutex::new(goes_on),
        was_held_up: AtomicBool::new(false),
    });
    let world = with_tools(vec![stalls.clone()]);
    let stalled = world.call("stalls", json!({}));
    let others = async {
        let has_looked = tokio::task::spawn_blocking(move || has_looked.recv());
        has_looked.await.unwrap().unwrap();
        world.text("list_files", json!({})).await;
        _ = go_on.send(());
    };
    let (stalled, ()) = tokio::join!(stalled, others);
    assert_eq!(stalled.result.unwrap().text, "ran");
    assert!(!stalls.was_held_up.load(Ordering::SeqCst));
}

#[tokio::test]
async fn only_what_changes_something_asks_the_gate() {
    let (pure, pure_count) = counting("pure", Effect::Pure);
    let (idempotent, idempotent_count) = counting("idempotent", Effect::Idempotent);
    let (effectful, effectful_count) = counting("effectful", Effect::Effectful);
    let world = with_tools(vec![pure, idempotent, effectful]);
    let invoker = world.tools.invoker();
    for (key, not_after) in [
        ("", Some(NOW + 3_600_000)),
        ("k", None),
        ("k", Some(NOW - 1)),
    ] {
        for (name, ok) in [("pure", true), ("idempotent", false), ("effectful", false)] {
            let call = Request {
                key: key.to_owned(),
                not_after,
                ..request(name, "{}")
            };
            let result = invoker.invoke(call).await.result;
            assert_eq!(
                result.is_ok(),
                ok,
                "{name} {key:?} {not_after:?}: {result:?}"
            );
            if let Err(error) = result {
                assert_eq!(error.reason(), "NotSent");
            }
        }
    }
    for name in ["idempotent", "effectful"] {
        invoker.invoke(request(name, "{}")).await.result.unwrap();
    }
    let counts = [pure_count, idempotent_count, effectful_count];
    assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [3, 1, 1]);
}

#[tokio::test]
async fn faults_in_arguments_come_before_the_gate() {
    struct Away(AtomicUsize);
    #[async_trait::async_trait]
    impl StoreTime for Away {
        async fn read(&self) -> Result<u64, BoxError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err("no store".into())
        }
    }
    let (tool, count) = counting("effectful", Effect::Effectful);
    let world = World::with(|_, deps| {
        deps.store_time = Arc::new(Away(AtomicUsize::new(0)));
        deps.tools = vec![tool];
    });
    assert_eq!(
        world.error("effectful", json!([])).await.reason(),
        "InvalidArguments"
    );
    assert_eq!(
        world.error("effectful", json!({})).await.reason(),
        "NotSent"
    );
    // What only reads works without the store.
    world.text("list_files", json!({})).await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
}
