//! What becomes of a call whose caller goes.

use crate::support::{Custom, World, counting, with_tools};
use cairn_tools::{Effect, Output, Tool};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

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
    let world = with_tools(vec![tool]);
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
        let world = with_tools(vec![tool]);
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
