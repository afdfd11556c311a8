//! The metrics of the process, and the largest values of some.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

pub(super) const OWNED: &str = "cairn_sessions_owned";
pub(super) const QUEUED: &str = "cairn_queue_sessions";
pub(super) const COMPLETED: &str = "cairn_runs_total{status=\"completed\"}";
const STATE_BYTES: &str = "cairn_state_bytes";

/// Where the process shows its metrics.
#[derive(Debug, Clone)]
pub(super) struct Metrics(String);

impl Metrics {
    /// At this URL.
    pub(super) fn at(url: String) -> Self {
        Self(url)
    }

    pub(super) fn get(&self) -> Shown {
        let rest = self.0.strip_prefix("http://").expect("a URL");
        let (address, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request =
            format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        Shown(answer)
    }
}

/// The metrics at one moment.
pub(super) struct Shown(String);

impl Shown {
    /// The value of a metric; 0 if nothing was recorded.
    pub(super) fn value(&self, series: &str) -> usize {
        let mut lines = self.0.lines().filter_map(|line| line.strip_prefix(series));
        let value = lines.find_map(|rest| rest.strip_prefix(' ')?.trim().parse::<f64>().ok());
        value.map_or(0, |value| value as usize)
    }
}

/// The largest values that were seen.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Peak {
    pub(super) state_bytes: usize,
    /// Also sessions that are still being read, and may be given back.
    pub(super) owned: usize,
    pub(super) queued: usize,
}

impl Peak {
    fn add(&mut self, shown: &Shown) {
        self.state_bytes = self.state_bytes.max(shown.value(STATE_BYTES));
        self.owned = self.owned.max(shown.value(OWNED));
        self.queued = self.queued.max(shown.value(QUEUED));
    }
}

/// Looks at the metrics again and again, in a thread of its own.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Watch {
    pub(super) fn begin(metrics: &Metrics) -> Self {
        let (metrics, is_over) = (metrics.clone(), Arc::new(AtomicBool::new(false)));
        let ends = is_over.clone();
        let thread = thread::spawn(move || {
            let mut peak = Peak::default();
            while !ends.load(Ordering::Relaxed) {
                peak.add(&metrics.get());
                thread::sleep(LOOK);
            }
            peak
        });
        Self { is_over, thread }
    }

    /// Ends the watch, and returns what it has seen.
    pub(super) fn end(self) -> Peak {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the process shows its metrics")
    }
}
