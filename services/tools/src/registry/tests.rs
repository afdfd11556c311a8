use super::*;
use crate::error::ToolError;
use crate::tool::{Call, Output};
use async_trait::async_trait;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

struct Fixed(ToolSpec);

#[async_trait]
impl Tool for Fixed {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        Ok(Output::text(""))
    }
}

/// A source that lists what a test says.
struct Played(watch::Sender<Arc<Listing>>);

impl ToolSource for Played {
    fn name(&self) -> &'static str {
        "played"
    }

    fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.0.subscribe()
    }
}

/// A source that is slow to look at once a test says so.
struct Slow {
    listing: watch::Sender<Arc<Listing>>,
    is_slow: AtomicBool,
    looks: mpsc::Sender<()>,
    goes_on: Mutex<mpsc::Receiver<()>>,
    /// Whether it went on before it gave up.
    ended: mpsc::Sender<bool>,
}

impl ToolSource for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn digest(&self) -> String {
        if self.is_slow.load(Ordering::SeqCst) {
            _ = self.looks.send(());
            let goes_on = self.goes_on.lock().unwrap();
            let in_time = goes_on.recv_timeout(Duration::from_secs(5)).is_ok();
            _ = self.ended.send(in_time);
        }
        String::new()
    }

    fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.listing.subscribe()
    }
}

/// To compile the schemas of a server takes its time, and calls of other tools look at the list meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_waits_for_a_list_that_is_being_made() {
    let ((looks, has_looked), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let (ended, has_ended) = mpsc::channel();
    let slow = Arc::new(Slow {
        listing: watch::Sender::new(Arc::default()),
        is_slow: AtomicBool::new(false),
        looks,
        goes_on: Mutex::new(goes_on),
        ended,
    });
    let registry = ToolRegistry::follow(vec![slow.clone()], "");
    slow.is_slow.store(true, Ordering::SeqCst);
    slow.listing.send_replace(Arc::default());
    has_looked.recv().unwrap();
    registry.now();
    go_on.send(()).unwrap();
    assert!(has_ended.recv().unwrap());
}

/// Replicas have one list while their servers are in other states, so that clients keep their prompts.
#[test]
fn the_digest_is_of_tools_and_not_of_states() {
    let digest = |state: &SourceState, disabled: Option<&str>, tools: usize| {
        let tool = |name: usize| Listed {
            tool: Arc::new(Fixed(ToolSpec::new(
                format!("t{name}"),
                "d",
                serde_json::json!({"type": "object"}),
            ))),
            disabled: disabled.map(str::to_owned),
        };
        let listing = Listing {
            tools: (0..tools).map(tool).collect(),
            state: state.clone(),
            left_out: vec![format!("{state:?}")],
        };
        let source: Arc<dyn ToolSource> = Arc::new(Played(watch::Sender::new(Arc::new(listing))));
        Snapshot::of(&[source], &Snapshot::default()).digest
    };
    let ready = digest(&SourceState::Ready, None, 2);
    let disabled = digest(&SourceState::Ready, Some("it is new"), 2);
    for state in [
        SourceState::Starting,
        SourceState::NotAllowed("why".to_owned()),
        SourceState::Unreachable("it ended with exit status 1".to_owned()),
    ] {
        assert_eq!(digest(&state, None, 2), ready, "{state:?}");
        assert_eq!(digest(&state, Some("it changed"), 2), disabled);
    }
    assert_ne!(digest(&SourceState::Ready, None, 1), ready);
    assert_ne!(disabled, ready);
}

#[test]
fn a_large_source_leaves_room_for_the_small_ones() {
    let listing = |bytes: usize| {
        let parameters = serde_json::json!({"type": "object"});
        let spec = ToolSpec::new("t", "x".repeat(bytes), parameters);
        let tool: Arc<dyn Tool> = Arc::new(Fixed(spec));
        Arc::new(Listing {
            tools: vec![Listed {
                tool,
                disabled: None,
            }],
            ..Listing::default()
        })
    };
    let shares = shares(&[listing(2 * MOST_BYTES), listing(1_000), listing(MOST_BYTES)]);
    assert!((1_000..3_000).contains(&shares[1]), "{shares:?}");
    assert_eq!(shares[0] + shares[1] + shares[2], MOST_BYTES);
    assert!(shares[0].abs_diff(shares[2]) <= 1, "{shares:?}");
}
