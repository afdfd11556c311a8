//! The tool of the cases: it does nothing but tell when it was called.

use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

/// When the tool was called, by session.
#[derive(Default)]
pub(crate) struct Calls {
    sessions: Mutex<HashMap<String, Vec<Instant>>>,
    changed: Notify,
}

impl Calls {
    /// Waits for so many calls of a session; the seconds between them.
    pub(crate) async fn times(&self, session: &str, calls: usize) -> Vec<f64> {
        loop {
            let changed = self.changed.notified();
            if let Some(at) = self.sessions.lock().expect("no panic").get(session)
                && at.len() >= calls
            {
                let between = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
                return between.collect();
            }
            changed.await;
        }
    }
}

/// A tool that does nothing but tell when.
pub(crate) struct Counted {
    spec: ToolSpec,
    calls: Arc<Calls>,
    /// Whoever waits is told only of each of these.
    every: usize,
}

impl Counted {
    pub(crate) fn tool(calls: Arc<Calls>) -> Arc<dyn Tool> {
        let mut spec = ToolSpec::new(
            "counted",
            "does nothing",
            serde_json::json!({"type": "object"}),
        );
        spec.effect = Effect::Pure;
        Arc::new(Self {
            spec,
            calls,
            every: 16,
        })
    }
}

#[async_trait::async_trait]
impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let mut sessions = self.calls.sessions.lock().expect("no panic");
        let times = sessions.entry(call.session.clone()).or_default();
        times.push(Instant::now());
        if times.len().is_multiple_of(self.every) {
            self.calls.changed.notify_waiters();
        }
        Ok(Output::text("nothing"))
    }
}
