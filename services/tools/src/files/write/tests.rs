use super::super::Settings;
use crate::config::{Limits, Write};
use crate::error::ToolError;
use crate::gate::{BoxError, Gate, StoreClock, StoreTime};
use crate::tool::{Call, Output, Tool};
use async_trait::async_trait;
use cairn_rpc::Monotonic;
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A clock that stands still until it is moved.
#[derive(Default)]
struct Hand(AtomicU64);

impl Monotonic for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Store;

#[async_trait]
impl StoreTime for Store {
    async fn read(&self) -> Result<u64, BoxError> {
        Ok(1_000)
    }
}

struct World {
    folder: TempDir,
    tool: Arc<dyn Tool>,
    hand: Arc<Hand>,
    call: Call,
}

/// A call that the gate has let through, and that may begin up to 500 ms from now.
async fn admitted() -> World {
    let folder = TempDir::new().unwrap();
    let (workspace, output) = (folder.path().join("ws"), folder.path().join("out"));
    fs::create_dir(&workspace).unwrap();
    let settings = Settings {
        show: &[],
        private: Vec::new(),
        write: Write::Out,
        protected: Vec::new(),
        limits: &Limits::default(),
    };
    let tools = super::super::tools(&workspace, &output, settings).unwrap();
    let tool = tools
        .into_iter()
        .find(|tool| tool.spec().name == "write_file");
    let hand = Arc::new(Hand::default());
    let clock = StoreClock::new(Arc::new(Store), hand.clone());
    let gate = Gate::new(Arc::new(clock));
    World {
        folder,
        tool: tool.unwrap(),
        hand,
        call: Call {
            trace: None,
            input: Default::default(),
            progress: Default::default(),
            key: "k".to_owned(),
            session: "s".to_owned(),
            arguments: json!({"path": "cairn-out/a", "content": "new"}),
            stop: CancellationToken::new(),
            permit: gate.admit("k", Some(1_500)).await.unwrap(),
            slot: crate::tool::Slot::default(),
            digests: None,
        },
    }
}

impl World {
    async fn write(&self) -> Result<Output, ToolError> {
        self.tool.call(&self.call).await
    }

    fn output(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.folder.path().join("out")).unwrap();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }
}

#[tokio::test]
async fn a_write_in_time_is_done() {
    let world = admitted().await;
    world.hand.0.store(500, Ordering::SeqCst);
    world.write().await.unwrap();
    assert_eq!(world.output(), [("a".to_owned(), "new".to_owned())]);
}

#[tokio::test]
async fn a_write_that_became_late_while_it_was_prepared_leaves_everything_as_it_was() {
    let world = admitted().await;
    let out = world.folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("a"), "old").unwrap();
    world.hand.0.store(501, Ordering::SeqCst);
    let result = world.write().await;
    assert!(matches!(result, Err(ToolError::NotSent(_))), "{result:?}");
    assert_eq!(world.output(), [("a".to_owned(), "old".to_owned())]);
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_is_not_begun() {
    let world = admitted().await;
    world.call.stop.cancel();
    assert!(world.write().await.is_err());
    assert!(!world.folder.path().join("out").exists());
}
