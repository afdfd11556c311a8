//! The tool of the cases: it does nothing but note when it was called.

use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::oneshot;

/// When the tool was called, by session.
#[derive(Default)]
pub(crate) struct Calls {
    sessions: Mutex<HashMap<String, Called>>,
}

/// The calls of a session.
#[derive(Default)]
struct Called {
    at: Vec<Instant>,
    /// The one who waits for so many calls.
    waiting: Option<(usize, oneshot::Sender<Vec<Instant>>)>,
}

impl Called {
    /// Wakes the one who waits, once, when all calls were made: what is measured has few others to wake.
    fn wake(&mut self) {
        let waiting = self.waiting.take_if(|(calls, _)| self.at.len() >= *calls);
        if let Some((_, waiting)) = waiting {
            // The benchmark may be over.
            let _ = waiting.send(self.at.clone());
        }
    }
}

impl Calls {
    /// Waits for so many calls of a session; the seconds between them.
    pub(crate) async fn times(&self, session: &str, calls: usize) -> Vec<f64> {
        let at = self.instants(session, calls).await;
        let between = at.windows(2).map(|pair| pair[1] - pair[0]);
        between.map(|time| time.as_secs_f64()).collect()
    }

    /// Waits for so many calls of a session; when each came.
    pub(crate) async fn instants(&self, session: &str, calls: usize) -> Vec<Instant> {
        let (sender, woken) = oneshot::channel();
        {
            let mut sessions = self.sessions.lock().expect("no panic");
            let called = sessions.entry(session.to_owned()).or_default();
            called.waiting = Some((calls, sender));
            called.wake();
        }
        woken.await.expect("the calls")
    }
}

/// A tool that does nothing but note when.
pub(crate) struct Counted {
    spec: ToolSpec,
    calls: Arc<Calls>,
}

impl Counted {
    pub(crate) fn tool(calls: Arc<Calls>) -> Arc<dyn Tool> {
        let mut spec = ToolSpec::new(
            "counted",
            "does nothing",
            serde_json::json!({"type": "object"}),
        );
        spec.effect = Effect::Pure;
        Arc::new(Self { spec, calls })
    }
}

#[async_trait::async_trait]
impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let mut sessions = self.calls.sessions.lock().expect("no panic");
        let called = sessions.entry(call.session.clone()).or_default();
        called.at.push(Instant::now());
        called.wake();
        Ok(Output::text("nothing"))
    }
}
