//! One call, one result, whatever the tool does.

use crate::support::{Custom, NOW, World, request};
use cairn_tools::{
    BoxError, BuildError, Config, Deps, Effect, Output, RegisterError, Request, StoreTime, Tool,
    ToolError, ToolRegistry, build,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Barrier, Notify};

fn with(tools: Vec<Arc<dyn Tool>>) -> World {
    World::with(|_, deps| deps.tools = tools)
}

/// A tool that counts its calls.
fn counting(name: &str, effect: Effect) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = Custom::tool(name, effect, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Output::text("ran")) }
    });
    (tool, count)
}

#[tokio::test]
async fn an_unknown_tool_names_the_nearest_and_all() {
    let world = World::with(|config, _| config.deny = vec!["write_file".to_owned()]);
    let error = world.error("readfile", json!({})).await;
    assert_eq!(
        error.to_text(),
        "NotFound: there is no tool 'readfile'; did you mean 'read_file'?; tools: list_files, \
         read_file, search_files"
    );
    for odd in ["", "zzz", "read_file\n\u{1b}[31m", &"x".repeat(100_000)] {
        let error = world.error(odd, json!({})).await;
        assert_eq!(error.reason(), "NotFound");
        assert!(
            error.message().len() < 400 && !error.message().contains('\n'),
            "{error:?}"
        );
        assert!(!error.message().contains("did you mean 'write"), "{error}");
    }
}

#[tokio::test]
async fn denied_tools_are_neither_listed_nor_run() {
    let (first, first_count) = counting("first", Effect::Pure);
    let (second, second_count) = counting("second", Effect::Pure);
    let world = World::with(|config, deps| {
        deps.tools = vec![first, second];
        config.allow = Some(["first", "second"].map(str::to_owned).to_vec());
        config.deny = vec!["second".to_owned()];
    });
    let listed: Vec<&str> = world
        .tools
        .invoker()
        .list()
        .map(|spec| spec.name.as_str())
        .collect();
    assert_eq!(listed, ["first"]);
    world.text("first", json!({})).await;
    for (name, list) in [("second", "deny-list"), ("read_file", "allow-list")] {
        let error = world.error(name, json!({})).await;
        assert_eq!(error.reason(), "Denied");
        assert!(error.message().contains(list), "{error}");
    }
    for near in ["First", "first ", "ﬁrst", "first\0", "fırst"] {
        assert_eq!(
            world.error(near, json!({})).await.reason(),
            "NotFound",
            "{near:?}"
        );
    }
    let counts = [&first_count, &second_count].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 0]);
}

#[tokio::test]
async fn a_list_that_names_no_tool_is_refused() {
    for change in [
        |config: &mut Config| config.deny = vec!["wrte_file".to_owned()],
        |config: &mut Config| config.allow = Some(vec!["wrte_file".to_owned()]),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut config = Config {
            workspace: folder.path().to_owned(),
            output: folder.path().join("cairn-out"),
            ..Config::default()
        };
        change(&mut config);
        let deps = Deps::new(Arc::new(crate::support::FixedTime));
        let Err(BuildError::Config(faults)) = build(config, deps) else {
            panic!("accepted");
        };
        assert!(
            faults[0].problem.contains("no tool 'wrte_file'"),
            "{faults:?}"
        );
    }
}

#[tokio::test]
async fn folders_that_cannot_be_are_refused() {
    let top = tempfile::TempDir::new().unwrap();
    let folder = |name: &str| top.path().join(name);
    std::fs::create_dir_all(folder("a/ws")).unwrap();
    std::fs::write(folder("file"), "").unwrap();
    std::os::unix::fs::symlink(folder("a"), folder("link")).unwrap();
    for (workspace, output, word) in [
        ("gone", "out", "cannot open the workspace"),
        ("file", "out", "cannot open the workspace"),
        ("a/ws", "a/ws", "is or holds the workspace"),
        ("a/ws", "a", "is or holds the workspace"),
        ("a/ws", "a/ws/../../a", "is or holds the workspace"),
        ("a/ws", "link", "is or holds the workspace"),
        ("a/ws", "file", "is a file"),
    ] {
        let config = Config {
            workspace: folder(workspace),
            output: folder(output),
            ..Config::default()
        };
        let error = build(config, Deps::new(Arc::new(crate::support::FixedTime))).unwrap_err();
        assert!(
            error.to_string().contains(word),
            "{workspace} {output}: {error}"
        );
    }
}

#[tokio::test]
async fn names_are_taken_once() {
    let tool = |name: &str| counting(name, Effect::Pure).0;
    let mut registry = ToolRegistry::new();
    registry.register(tool("b")).unwrap();
    registry.register(tool("a")).unwrap();
    assert_eq!(
        registry.register(tool("a")),
        Err(RegisterError::Duplicate("a".to_owned()))
    );
    for bad in ["", "a b", "a.b", "ä", &"a".repeat(65)] {
        assert_eq!(
            registry.register(tool(bad)),
            Err(RegisterError::Name(bad.to_owned()))
        );
    }
    let names: Vec<&str> = registry.list().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(registry.get("a").unwrap().spec().name, "a");
    let Err(ToolError::NotFound(message)) = registry.get("c") else {
        panic!("found");
    };
    assert_eq!(message, "there is no tool 'c'; tools: a, b");
    let Err(ToolError::NotFound(message)) = ToolRegistry::new().get("c").map(|_| ()) else {
        panic!("found");
    };
    assert_eq!(message, "there is no tool 'c'; there are no tools at all");
}

#[tokio::test]
async fn a_panic_is_a_result_and_the_next_call_works() {
    let world = with(vec![
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
    let world = with(vec![long]);
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
    let world = with(vec![
        forever("pure", Effect::Pure),
        forever("effect", Effect::Effectful),
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
    for name in ["effect", "broken"] {
        let error = world.error(name, json!({})).await;
        assert_eq!(error.reason(), "Timeout");
        assert!(
            error
                .message()
                .ends_with("what it had done by then stays done"),
            "{error}"
        );
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
    let world = with(vec![meeting]);
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
    let world = with(vec![
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

#[tokio::test]
async fn only_what_changes_something_asks_the_gate() {
    let (pure, pure_count) = counting("pure", Effect::Pure);
    let (idempotent, idempotent_count) = counting("idempotent", Effect::Idempotent);
    let (effectful, effectful_count) = counting("effectful", Effect::Effectful);
    let world = with(vec![pure, idempotent, effectful]);
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

/// A tool that says when it has begun, then waits to be let go, and says when it is over or
/// dropped.
struct Watched {
    begun: Arc<Notify>,
    go: Arc<Notify>,
    finished: Arc<AtomicUsize>,
    dropped: Arc<Notify>,
}

struct TellDrop(Arc<Notify>);

impl Drop for TellDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Watched {
    fn tool(effect: Effect) -> (Arc<dyn Tool>, Self) {
        let watched = Self {
            begun: Arc::default(),
            go: Arc::default(),
            finished: Arc::default(),
            dropped: Arc::default(),
        };
        let (begun, go) = (watched.begun.clone(), watched.go.clone());
        let (finished, dropped) = (watched.finished.clone(), watched.dropped.clone());
        let tool = Custom::tool("watched", effect, move |_| {
            let (begun, go, finished) = (begun.clone(), go.clone(), finished.clone());
            let guard = TellDrop(dropped.clone());
            async move {
                let _guard = guard;
                begun.notify_one();
                go.notified().await;
                finished.fetch_add(1, Ordering::SeqCst);
                Ok(Output::default())
            }
        });
        (tool, watched)
    }
}

#[tokio::test]
async fn a_pure_call_stops_when_its_caller_goes() {
    let (tool, watched) = Watched::tool(Effect::Pure);
    let world = with(vec![tool]);
    {
        let call = world.call("watched", json!({}));
        tokio::select! {
            _ = call => panic!("it waits to be let go"),
            () = watched.begun.notified() => {}
        }
    }
    watched.dropped.notified().await;
    assert_eq!(watched.finished.load(Ordering::SeqCst), 0);
    world.tools.drain().await;
}

#[tokio::test]
async fn an_effectful_call_is_finished_when_its_caller_goes() {
    for effect in [Effect::Idempotent, Effect::Effectful] {
        let (tool, watched) = Watched::tool(effect);
        let world = with(vec![tool]);
        {
            let call = world.call("watched", json!({}));
            tokio::select! {
                _ = call => panic!("it waits to be let go"),
                () = watched.begun.notified() => {}
            }
        }
        watched.go.notify_one();
        world.tools.drain().await;
        assert_eq!(watched.finished.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_call_whose_caller_goes_before_the_gate_is_never_made() {
    let (tool, count) = counting("effectful", Effect::Effectful);
    let (blocker, watched) = Watched::tool(Effect::Effectful);
    let world = World::with(|config, deps| {
        config.limits.parallel_calls = 1;
        deps.tools = vec![tool, blocker];
    });
    let mut first = Box::pin(world.call("watched", json!({})));
    tokio::select! {
        _ = &mut first => panic!("it waits to be let go"),
        () = watched.begun.notified() => {}
    }
    {
        let mut second = Box::pin(world.call("effectful", json!({})));
        assert!(futures::poll!(&mut second).is_pending());
    }
    watched.go.notify_one();
    first.await.result.unwrap();
    world.tools.drain().await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
}
